-- KEYS: heads. Returns the heads of all logs, each after the id of its log.
local heads = redis.pcall('HGETALL', KEYS[1])
if failed(heads, KEYS[1]) then
  heads = redis.call('HGETALL', KEYS[1])
end
return heads
