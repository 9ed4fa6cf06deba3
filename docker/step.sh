#!/bin/sh
# Runs one step of a build, given as text. The step fetches through proxies, and trusts the certificate authorities in
# the build secret `ca`, a PEM file. Its output holds no build time, so equal contents make equal layers.
#   RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh 'pip …'
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
began="$work/began"
touch --date="60 seconds ago" "$began"  # the builder creates its mounts a moment before

# pip, curl and apt read the lower-case variables.
for name in http_proxy https_proxy no_proxy; do
    upper=$(echo "$name" | tr a-z A-Z)
    eval "value=\${$name:-\${$upper:-}}"
    [ -z "$value" ] || export "$name=$value"
done

# Java reads none of these variables.
java=""
for scheme in http https; do
    eval "url=\${${scheme}_proxy:-}"
    [ -n "$url" ] || continue
    place=${url#*://}
    place=${place%%/*}
    place=${place##*@}
    port=${place##*:}
    [ "$port" != "$place" ] || port=80
    java="$java -D$scheme.proxyHost=${place%:*} -D$scheme.proxyPort=$port"
done
if [ -n "${no_proxy:-}" ]; then
    java="$java -Dhttp.nonProxyHosts=$(echo "$no_proxy" | tr -d ' ' | sed -E 's/(^|,)\./\1*./g; s/,/|/g')"
fi

if [ -s /run/secrets/ca ]; then
    cat /run/secrets/ca >"$work/ca.pem"
    [ ! -s /etc/ssl/certs/ca-certificates.crt ] || cat /etc/ssl/certs/ca-certificates.crt >>"$work/ca.pem"
    export PIP_CERT="$work/ca.pem" SSL_CERT_FILE="$work/ca.pem" REQUESTS_CA_BUNDLE="$work/ca.pem" CURL_CA_BUNDLE="$work/ca.pem"
    echo "Acquire::https::CAInfo \"$work/ca.pem\";" >"$work/apt.conf"
    export APT_CONFIG="$work/apt.conf"
    # apt fetches as its own user.
    chmod 755 "$work"
    if command -v keytool >/dev/null; then
        store="$work/cacerts"
        cp /etc/ssl/certs/java/cacerts "$store"
        awk -v folder="$work" '/BEGIN CERTIFICATE/ {n++} n {print > (folder "/own-" n ".pem")}' /run/secrets/ca
        for each in "$work"/own-*.pem; do
            keytool -importcert -noprompt -alias "$(basename "$each")" -file "$each" -keystore "$store" -storepass changeit
        done
        java="$java -Djavax.net.ssl.trustStore=$store -Djavax.net.ssl.trustStorePassword=changeit"
    fi
fi
[ -z "$java" ] || export JAVA_TOOL_OPTIONS="$java"

sh -euc "$1"

# Logs and caches hold times; so do all new files.
rm -rf /tmp/hsperfdata_* /var/log/apt /var/log/*.log /var/cache/ldconfig/aux-cache /var/cache/apt/*.bin /var/lib/apt/lists/*
settled=1980-01-01T00:00:00Z
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /etc/resolv.conf -o -path /etc/hosts \
    -o -path "$work" \) -prune -o -newer "$began" -exec touch --no-dereference --date=$settled {} +
rm -rf "$work"
touch --date=$settled /tmp
