# Fetches each URL of standard input once, and prints lines: the URL, the status and the body in hexadecimal digits, or the URL alone.
# The proxy is PROXY of the environment (none: directly).
require "net/http"

proxy = ENV["PROXY"] && URI(ENV["PROXY"])
$stdin.each_line(chomp: true) do |url|
  target = URI(url)
  client = Net::HTTP.new(target.host, target.port, proxy&.host, proxy&.port)
  client.read_timeout = 20
  client.max_retries = 0
  answer = client.get(target.request_uri)
  puts "#{url} #{answer.code} #{answer.body.to_s.unpack1("H*")}"
rescue StandardError
  puts url
end
