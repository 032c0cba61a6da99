-- KEYS: lease. ARGV: node. Ends the node's lease although there was no memory for its record.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return 1
