# wget reads the variables in lower case only, and none for the CA.
export http_proxy=@URL@ https_proxy=@URL@ no_proxy=@NO_PROXY@
wget() { command wget --ca-certificate=@CERTIFICATE@ "$@"; }
