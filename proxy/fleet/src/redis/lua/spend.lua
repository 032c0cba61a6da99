-- KEYS: usage, origins. ARGV: meter, the requests and the bytes that it has counted, the time to keep them, whether another request
-- asks to be counted, the limits of requests, bytes and origins (0: none), the request's origin, 1 if the request takes the place of
-- one that was counted and never sent, then origins that count already.
-- A meter repeats all that it has counted, and the highest number counts: a call that asks for nothing can be repeated.
-- Returns what is spent ('': nothing), the requests, bytes and origins of all meters, and the requests and bytes of this one.
local usage, origins, meter = KEYS[1], KEYS[2], ARGV[1]
local requests, bytes, keep = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local asks, most_requests, most_bytes, most_origins =
  ARGV[5] == '1', tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local origin = ARGV[9]
local more = asks and ARGV[10] ~= '1' and 1 or 0

local function counted(field)
  return tonumber(redis.call('HGET', usage, field) or 0)
end

local function raise(field, value)
  local own = field .. ':' .. meter
  local more = value - counted(own)
  if more > 0 then
    redis.call('HSET', usage, own, text(value))
    redis.call('HINCRBY', usage, field, text(more))
  end
end

raise('requests', requests)
raise('bytes', bytes)
for at = 11, #ARGV do
  redis.call('ZADD', origins, 0, ARGV[at])
end
local spent = ''
if asks then
  if most_requests > 0 and counted('requests') + more > most_requests then
    spent = 'requests'
  elseif most_bytes > 0 and counted('bytes') >= most_bytes then
    spent = 'bytes'
  elseif most_origins > 0 and not redis.call('ZRANK', origins, origin)
    and redis.call('ZCARD', origins) >= most_origins then
    spent = 'new_origins'
  end
end
if asks and spent == '' then
  raise('requests', counted('requests:' .. meter) + more)
  if most_origins > 0 then
    redis.call('ZADD', origins, 0, origin)
  end
end
redis.call('PEXPIRE', usage, keep)
redis.call('PEXPIRE', origins, keep)
return { spent, counted('requests'), counted('bytes'), redis.call('ZCARD', origins),
  counted('requests:' .. meter), counted('bytes:' .. meter) }
