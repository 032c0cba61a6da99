export http_proxy=@URL@ https_proxy=@URL@ no_proxy=@NO_PROXY@
export HTTP_PROXY=@URL@ HTTPS_PROXY=@URL@ NO_PROXY=@NO_PROXY@
export NODE_EXTRA_CA_CERTS=@CERTIFICATE@
# fetch and http honour the proxy from Node.js 22.21 and 24.5 on:
export NODE_USE_ENV_PROXY=1
# Before that (npm install undici):
#   import { EnvHttpProxyAgent, setGlobalDispatcher } from "undici";
#   setGlobalDispatcher(new EnvHttpProxyAgent());
