-- KEYS: slots, waiting. ARGV: the slot's holder, the delay, the lease, 1 if the slot was held.
local who, delay = ARGV[1], tonumber(ARGV[2])

redis.call('ZREM', KEYS[2], who)
redis.call('HDEL', KEYS[1], 'h:' .. who, 'd:' .. who)
if ARGV[4] == '1' then
  local next_at = math.max(tonumber(redis.call('HGET', KEYS[1], 'n') or 0), now + delay)
  redis.call('HSET', KEYS[1], 'n', text(next_at))
  redis.call('PEXPIRE', KEYS[1], milliseconds(tonumber(ARGV[3]) + 2 * delay))
end
return 1
