# Fetches each URL of standard input once, and prints lines: the URL, the status and the body in hexadecimal digits, or the URL alone.
# The proxy is PROXY of the environment (none: directly).
use strict;
use warnings;
use LWP::UserAgent;

my $client = LWP::UserAgent->new(timeout => 20, max_redirect => 0);
$client->proxy('http', $ENV{PROXY}) if $ENV{PROXY};
while (my $url = <STDIN>) {
    chomp $url;
    my $answer = $client->get($url, 'Accept-Encoding' => scalar HTTP::Message::decodable());
    my $failed = grep { defined $answer->header($_) } qw(Client-Aborted X-Died);
    $failed ||= ($answer->header('Client-Warning') // '') eq 'Internal response';
    my $body = $answer->decoded_content(charset => 'none');
    if ($failed || !defined $body) {
        print "$url\n";
    } else {
        print "$url ", $answer->code, ' ', unpack('H*', $body), "\n";
    }
}
