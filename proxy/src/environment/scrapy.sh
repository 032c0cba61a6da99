# Scrapy's HttpProxyMiddleware is on by default and reads these.
export http_proxy=@URL@ https_proxy=@URL@ no_proxy=@NO_PROXY@
export HTTP_PROXY=@URL@ HTTPS_PROXY=@URL@ NO_PROXY=@NO_PROXY@
# Scrapy verifies certificates only if settings.py says
#   DOWNLOAD_VERIFY_CERTIFICATES = True
# or, for older versions, which silently ignore that setting,
#   DOWNLOADER_CLIENTCONTEXTFACTORY = "scrapy.core.downloader.contextfactory.BrowserLikeContextFactory"
# It then trusts the certificates in this file:
export SSL_CERT_FILE=@CERTIFICATE@
