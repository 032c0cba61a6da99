# Java reads neither proxy variables nor PEM files, but properties and a trust store. The store is rebuilt each time,
# because a stale one would fail only at the first TLS handshake.
rm -f "$HOME/.wayleave-truststore.p12"
keytool -importcert -noprompt -alias wayleave -file @CERTIFICATE@ \
    -keystore "$HOME/.wayleave-truststore.p12" -storetype PKCS12 -storepass changeit
# The path is quoted once more because Java splits the variable itself.
export JAVA_TOOL_OPTIONS="-Dhttp.proxyHost=@HOST@ -Dhttp.proxyPort=@PORT@ \
-Dhttps.proxyHost=@HOST@ -Dhttps.proxyPort=@PORT@ \
-Dhttp.nonProxyHosts=localhost|127.*|[::1] \
'-Djavax.net.ssl.trustStore=$HOME/.wayleave-truststore.p12' \
-Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=changeit"
