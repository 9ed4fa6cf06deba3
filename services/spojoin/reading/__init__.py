"""Messages of every format as rows of the streams that they feed."""
