-- KEYS: slots, waiting, born. ARGV: the slot's holder, the number of slots, the delay, the lease, the timeout of the request,
-- the time that all wait for a server that may have lost slots, 1 to renew a slot that is held.
-- Returns what to do and in how many microseconds.
--
-- slots is a hash: 'n' is the time from which the next slot is free; 'h:WHO' the end of a holder's lease; 'd:WHO' the time by
-- which a waiting request must ask again. waiting is the sorted set of waiting requests, by arrival.
local slots, waiting = KEYS[1], KEYS[2]
local who, most, delay = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local term, timeout, quiet = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local LATE = 1000000

local function answer(what, microseconds)
  redis.call('PEXPIRE', slots, milliseconds(term + 2 * delay + timeout + quiet + LATE))
  redis.call('PEXPIRE', waiting, milliseconds(timeout + 2 * LATE))
  return { what, math.ceil(microseconds) }
end

local function stop_waiting(other)
  redis.call('ZREM', waiting, other)
  redis.call('HDEL', slots, 'd:' .. other)
end

local next_at = born(KEYS[3]) + quiet
local held = 0
local is_mine = ARGV[7] == '1'
local fields = redis.call('HGETALL', slots)
for at = 1, #fields, 2 do
  local name, value = fields[at], tonumber(fields[at + 1])
  local kind, other = name:sub(1, 2), name:sub(3)
  if name == 'n' then
    next_at = math.max(next_at, value)
  elseif kind == 'h:' and value > now then
    held = held + 1
    is_mine = is_mine or other == who
  elseif kind == 'h:' then
    -- It expired; its last request was sent before the end of the lease.
    next_at = math.max(next_at, value + delay)
    redis.call('HDEL', slots, name)
  elseif kind == 'd:' and value <= now then
    stop_waiting(other)
  end
end
redis.call('HSET', slots, 'n', text(next_at))

local place = redis.call('ZRANK', waiting, who)
local ahead = place or redis.call('ZCARD', waiting)
local is_free = held + ahead < most
if is_mine or (is_free and next_at <= now) then
  stop_waiting(who)
  redis.call('HSET', slots, 'h:' .. who, text(now + term))
  return answer('go', 0)
end

if held >= most then
  next_at = math.max(next_at, now + delay)
end
local wait = math.max(next_at - now, 0) + ahead * delay
if timeout == 0 or wait > timeout then
  stop_waiting(who)
  return answer('too soon', wait)
end
local again = is_free and wait or math.min(math.max(delay / 10, 20000), 1000000)
again = math.max(again, 1000)
redis.call('HSET', slots, 'd:' .. who, text(now + again + LATE))
if not place then
  redis.call('ZADD', waiting, text(now), who)
end
return answer('later', again)
