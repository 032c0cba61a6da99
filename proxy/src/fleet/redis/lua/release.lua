-- KEYS: lease. ARGV: node. Ends the node's lease though there was no room for what it learned.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return 1
