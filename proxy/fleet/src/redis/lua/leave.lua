-- KEYS: slots, waiting. ARGV: the slot's holder, the delay, the lease, 1 if the slot was held, the time for which its end is
-- remembered after the delay.
local who, delay = ARGV[1], tonumber(ARGV[2])

redis.call('ZREM', KEYS[2], who)
redis.call('HDEL', KEYS[1], 'h:' .. who, 'b:' .. who, 'd:' .. who)
if ARGV[4] == '1' then
  local next_at = math.max(tonumber(redis.call('HGET', KEYS[1], 'n') or 0), now + delay)
  redis.call('HSET', KEYS[1], 'n', text(next_at))
  local remembered = tonumber(ARGV[5])
  if remembered > 0 then
    redis.call('HSET', KEYS[1], 'l', text(now))
  end
  prolong(KEYS[1], tonumber(ARGV[3]) + 2 * delay + remembered)
end
return 1
