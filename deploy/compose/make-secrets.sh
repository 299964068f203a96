#!/bin/sh
# Makes the secrets that compose.yaml names, beside it, once: what is there stays as it is.
set -eu
umask 077
cd "$(dirname "$0")"
mkdir -p secrets && chmod 700 secrets
random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
for name in postgres_password secrets_key s3_access_key s3_secret_key; do
    [ -s "secrets/$name" ] || random > "secrets/$name"
done
cat > secrets/s3_identities <<JSON
{
  "identities": [
    {
      "name": "holdfast",
      "credentials": [
        { "accessKey": "$(cat secrets/s3_access_key)", "secretKey": "$(cat secrets/s3_secret_key)" }
      ],
      "actions": ["Admin", "Read", "Write", "List", "Tagging"]
    }
  ]
}
JSON
# Containers have users of their own, who read what is mounted for them; the folder is ours alone.
chmod 644 secrets/*
