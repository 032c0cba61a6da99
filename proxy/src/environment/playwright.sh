# Chromium trusts the certificates in the user's NSS database (certutil: Debian's libnss3-tools).
mkdir -p "$HOME/.pki/nssdb"
certutil -A -d "sql:$HOME/.pki/nssdb" -n wayleave -t C,, -i @CERTIFICATE@
# The proxy is an argument, in Python and in JavaScript; next to server, it takes username and password:
#   playwright.chromium.launch(proxy={"server": "@SERVER@"})
#   chromium.launch({ proxy: { server: "@SERVER@" } })
