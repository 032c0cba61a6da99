-- KEYS: rest, rests, log, born. ARGV: node, origin, the response's status, its Retry-After (-1: none), the longest rest.
-- Returns the time for which the origin rests; -1: it does not. The rules are those of `fleet/rest.rs`.
local rest, rests = KEYS[1], KEYS[2]
local node, origin, status = ARGV[1], ARGV[2], tonumber(ARGV[3])
local retry_after, longest = tonumber(ARGV[4]), tonumber(ARGV[5])

if status ~= 429 and status ~= 503 then
  -- It may answer a request that was sent before the rest began.
  local left = tonumber(redis.call('HGET', rest, 'until') or 0) - now
  if left > 0 then
    return math.ceil(left)
  end
  if redis.call('DEL', rest) == 1 then
    redis.call('ZREM', rests, origin)
    note(KEYS[3], KEYS[4], node, origin, 'rested')
  end
  return -1
end
local known = redis.call('HMGET', rest, 'until', 'refusals')
local refusals = tonumber(known[2] or 0)
local doublings = status == 429 and refusals + 1 or refusals
local growing = doublings > 0 and 1000000 * 2 ^ math.min(doublings - 1, 20) or 0
local asked = math.min(retry_after >= 0 and retry_after or growing, longest)
local ends_at = math.max(tonumber(known[1] or 0), now + asked)
redis.call('HSET', rest, 'until', text(ends_at), 'refusals', refusals + 1)
redis.call('PEXPIRE', rest, milliseconds(ends_at - now + 3600000000))
redis.call('ZADD', rests, text(ends_at), origin)
note(KEYS[3], KEYS[4], node, origin, 'rests')
return math.ceil(ends_at - now)
