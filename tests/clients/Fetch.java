import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;

/** Fetches the URL of its argument with the proxy and trust store of the system properties, and prints status and body. */
public class Fetch {
    public static void main(String[] arguments) throws Exception {
        HttpURLConnection connection = (HttpURLConnection) URI.create(arguments[0]).toURL().openConnection();
        int status = connection.getResponseCode();
        InputStream body = status < 400 ? connection.getInputStream() : connection.getErrorStream();
        System.out.println(status + " " + new String(body.readAllBytes()));
    }
}
