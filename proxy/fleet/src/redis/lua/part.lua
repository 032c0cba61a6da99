-- KEYS: nodes, processes, settings. ARGV: node, its process. Removes the node, so that another process can take its name.
local _, holder = recent(redis.call('HGET', KEYS[2], ARGV[1]))
if holder == ARGV[2] then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
end
if #redis.call('HGETALL', KEYS[1]) == 0 then
  redis.call('DEL', KEYS[3])
end
return 1
