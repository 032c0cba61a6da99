-- KEYS: heads. ARGV: log, the head that is expected ('': none), the one to store ('': none), the time to keep all of them.
-- Returns nothing if that was stored, and otherwise what is stored.
local heads, log = KEYS[1], ARGV[1]
local stored = redis.pcall('HGET', heads, log)
if failed(stored, heads) then
  stored = redis.call('HGET', heads, log)
end
stored = stored or ''
if stored ~= ARGV[2] then
  return stored
end
if ARGV[3] == '' then
  redis.call('HDEL', heads, log)
else
  redis.call('HSET', heads, log, ARGV[3])
end
prolong(heads, tonumber(ARGV[4]))
return false
