-- What every script begins with: the engine's clock, in microseconds since the epoch.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function text(number)
  return string.format('%.0f', number)
end

local function milliseconds(microseconds)
  return text(math.ceil(microseconds / 1000))
end

-- Since when this server has been the one that counts for a partition. One with another run_id than the last was
-- restarted, emptied or promoted, and may have forgotten turns and notes: turns wait for their delay from then on, and the
-- numbers of notes leap, so that readers see a gap.
local function born(key)
  local id = redis.call('INFO', 'server'):match('run_id:(%w+)')
  local known = redis.call('HMGET', key, 'id', 'at', 'seq')
  if known[1] == id then
    return tonumber(known[2])
  end
  local seq = math.max(tonumber(known[3] or 0) + 1, now)
  redis.call('HSET', key, 'id', id, 'at', text(now), 'seq', text(seq))
  return now
end

-- Tells the other nodes. An id is the note's number, without holes.
local function note(log, key, node, origin, what)
  born(key)
  local seq = redis.call('HINCRBY', key, 'seq', 1)
  redis.call('XADD', log, 'MAXLEN', '~', 10000, text(seq) .. '-1', 'n', node, 'o', origin, 'w', what,
    't', text(math.floor(now / 1000)))
end

-- The head of an entry: its version, until when it may be gone by, and when it was learned.
local HEAD = '>I8I8I8'
local HEAD_BYTES = 24

local function head(entry)
  local start = redis.call('GETRANGE', entry, 0, HEAD_BYTES - 1)
  if #start < HEAD_BYTES then
    return 0, 0, 0
  end
  return struct.unpack(HEAD, start)
end

local function body(entry)
  return redis.call('GETRANGE', entry, HEAD_BYTES, -1)
end
