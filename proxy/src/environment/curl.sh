# curl reads http_proxy in lower case only.
export http_proxy=@URL@ https_proxy=@URL@ no_proxy=@NO_PROXY@
export CURL_CA_BUNDLE=@CERTIFICATE@
