<?php
// Fetches each URL of standard input once, and prints lines: the URL, the status and the body in hexadecimal digits, or the URL alone.
// The proxy is PROXY of the environment (none: directly).
$http = ['timeout' => 20, 'ignore_errors' => true, 'follow_location' => 0];
if ($proxy = getenv('PROXY')) {
    $http += ['proxy' => str_replace('http:', 'tcp:', $proxy), 'request_fulluri' => true];
}
while ($url = trim((string) fgets(STDIN))) {
    $http_response_header = [];
    $body = @file_get_contents($url, false, stream_context_create(['http' => $http]));
    $status = '';
    foreach ($http_response_header as $line) {
        if (preg_match('#^HTTP/\S+\s+(\d+)#i', $line, $found)) {
            $status = $found[1];
        }
    }
    echo $body === false ? "$url\n" : "$url $status " . bin2hex($body) . "\n";
}
