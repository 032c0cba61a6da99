import java.net.InetSocketAddress;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Scanner;

/**
 * Fetches each URL of standard input once, and prints lines: the URL, the status and the body in hexadecimal digits, or the URL
 * alone. The proxy is PROXY of the environment (none: directly).
 */
public class Stack {
    public static void main(String[] arguments) {
        HttpClient.Builder builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1);
        String proxy = System.getenv("PROXY");
        if (proxy != null) {
            URI address = URI.create(proxy);
            builder.proxy(ProxySelector.of(new InetSocketAddress(address.getHost(), address.getPort())));
        }
        HttpClient client = builder.build();
        Scanner urls = new Scanner(System.in);
        while (urls.hasNext()) {
            String url = urls.next();
            try {
                HttpRequest request = HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(20)).build();
                HttpResponse<byte[]> answer = client.send(request, HttpResponse.BodyHandlers.ofByteArray());
                System.out.println(url + " " + answer.statusCode() + " " + HexFormat.of().formatHex(answer.body()));
            } catch (Exception error) {
                System.out.println(url);
            }
        }
        System.exit(0);
    }
}
