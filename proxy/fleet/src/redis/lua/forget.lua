-- KEYS: entry, lease, log, born. ARGV: node, origin.
if redis.call('GET', KEYS[2]) == ARGV[1] then
  redis.call('DEL', KEYS[2])
end
redis.call('DEL', KEYS[1])
note(KEYS[3], KEYS[4], ARGV[1], ARGV[2], 'forgotten')
return 1
