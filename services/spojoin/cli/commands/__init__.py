"""The commands of `spojoin`, a file each. Imports stand inside the commands, so that help comes at once."""
