-- KEYS: slots, waiting, born, rest. ARGV: the slot's holder, the number of slots, the delay, the lease (0: the slot is not
-- held), the timeout of the request, the time that all wait for a server that may have lost slots, the time for which the end of
-- a slot is remembered after its delay, 1 to renew a slot that is held, 1 to wait for the end of the rest, the name of the turn
-- that is kept for the node's next request if this one may not wait ('': none), the time for which it is kept after the wait.
-- Returns what to do and in how many microseconds.
--
-- slots is a hash: 'n' is the time from which the next slot is free; 'l' the end of the last one, if that is remembered; 'h:WHO'
-- the end of a holder's lease, and 'b:WHO' its delay, if delays differ; 'd:WHO' the time by which a waiting request must ask again. waiting is the sorted set of waiting
-- requests, by arrival.
local slots, waiting = KEYS[1], KEYS[2]
local who, most, delay = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local term, timeout, quiet = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local remembered = tonumber(ARGV[7])
local turn, grace = ARGV[10], tonumber(ARGV[11])
local LATE = 1000000

local function answer(what, microseconds)
  prolong(slots, term + 2 * delay + timeout + quiet + remembered + LATE)
  redis.call('PEXPIRE', waiting, milliseconds(timeout + 2 * LATE))
  return { what, math.ceil(microseconds) }
end

local function stop_waiting(other)
  redis.call('ZREM', waiting, other)
  redis.call('HDEL', slots, 'd:' .. other)
end

local quiet_until = born(KEYS[3]) + quiet
local held = 0
local is_mine = ARGV[8] == '1'
local known = {}
local fields = redis.call('HGETALL', slots)
for at = 1, #fields, 2 do
  known[fields[at]] = tonumber(fields[at + 1])
end
local free_at, ended_at = known.n or 0, known.l or 0
for name, value in pairs(known) do
  local kind, other = name:sub(1, 2), name:sub(3)
  if kind == 'h:' and value > now then
    held = held + 1
    is_mine = is_mine or other == who
  elseif kind == 'h:' then
    -- It expired; its last request was sent before the end of the lease.
    free_at = math.max(free_at, value + (known['b:' .. other] or delay))
    ended_at = math.max(ended_at, value)
    redis.call('HSET', slots, 'n', text(free_at))
    if remembered > 0 then
      redis.call('HSET', slots, 'l', text(ended_at))
    end
    redis.call('HDEL', slots, name, 'b:' .. other)
  elseif kind == 'd:' and value <= now then
    stop_waiting(other)
  end
end

local rested_at = ARGV[9] == '1' and tonumber(redis.call('HGET', KEYS[4], 'until') or 0) or 0
local next_at = math.max(quiet_until, free_at, ended_at + delay, rested_at)
local place = redis.call('ZRANK', waiting, who) or turn ~= '' and redis.call('ZRANK', waiting, turn)
local ahead = place or redis.call('ZCARD', waiting)
local is_free = held + ahead < most
if is_mine or (is_free and next_at <= now) then
  stop_waiting(who)
  if turn ~= '' then
    stop_waiting(turn)
  end
  if term > 0 then
    redis.call('HSET', slots, 'h:' .. who, text(now + term))
    if remembered > 0 then
      redis.call('HSET', slots, 'b:' .. who, text(delay))
    end
  else
    redis.call('HSET', slots, 'l', text(now))
  end
  return answer('go', 0)
end

if held >= most then
  next_at = math.max(next_at, now + delay)
end
local wait = math.max(next_at - now, 0) + ahead * delay
if timeout == 0 or wait > timeout then
  stop_waiting(who)
  if rested_at == next_at then
    return answer('rests', wait)
  end
  if turn ~= '' and timeout == 0 then
    redis.call('HSET', slots, 'd:' .. turn, text(now + wait + grace))
    redis.call('ZADD', waiting, 'NX', text(now), turn)
    timeout = wait + grace
  end
  return answer('too soon', wait)
end
local again = is_free and wait or math.min(math.max(delay / 10, 20000), 1000000)
again = math.max(again, 1000)
redis.call('HSET', slots, 'd:' .. who, text(now + again + LATE))
if not place then
  redis.call('ZADD', waiting, text(now), who)
end
return answer('later', again)
