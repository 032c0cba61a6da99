-- The head of every script. Times are those of the engine's clock, in microseconds since the epoch.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function text(number)
  return string.format('%.0f', number)
end

local function milliseconds(microseconds)
  return text(math.ceil(microseconds / 1000))
end

-- Deletes a key of the wrong type, so that the call can be repeated. Any other error would only occur again.
local function failed(called, key)
  if type(called) ~= 'table' or not called.err then
    return false
  end
  if called.err:find('WRONGTYPE', 1, true) then
    redis.call('DEL', key)
  end
  return true
end

-- Lets a key live for so many microseconds more, unless it lives for longer already.
local function prolong(key, microseconds)
  local left = redis.call('PTTL', key) * 1000
  redis.call('PEXPIRE', key, milliseconds(math.max(left, microseconds)))
end

-- Returns the time since which this server has been the partition's primary. A server whose run_id differs from the last one
-- was restarted, emptied or promoted, and may have lost slots and notes: slots wait for their delay from then on, and the
-- numbers of notes leap, so that readers see a gap. A value that cannot be parsed counts as lost.
local function born(key)
  local id = redis.call('INFO', 'server'):match('run_id:(%w+)')
  local known = redis.pcall('HMGET', key, 'id', 'at', 'seq')
  if failed(known, key) then
    known = redis.call('HMGET', key, 'id', 'at', 'seq')
  end
  local at, seq = tonumber(known[2] or ''), tonumber(known[3] or '')
  if known[1] == id and at and at <= now and seq then
    return at
  end
  seq = math.max((seq or 0) + 1, now)
  redis.call('HSET', key, 'id', id, 'at', text(now), 'seq', text(seq))
  return now
end

-- Notifies the other nodes. Ids are the notes' numbers, without gaps. A log that accepts no more notes is restarted; its
-- readers see that notes are lost.
local function note(log, key, node, origin, what)
  born(key)
  local seq = text(redis.call('HINCRBY', key, 'seq', 1))
  local function add(call)
    return call('XADD', log, 'MAXLEN', '~', 10000, seq .. '-1', 'n', node, 'o', origin, 'w', what,
      't', text(math.floor(now / 1000)))
  end
  local added = add(redis.pcall)
  if type(added) == 'table' and added.err then
    if failed(added, log) and added.err:find('equal or smaller', 1, true) then
      redis.call('DEL', log)
    end
    add(redis.call)
  end
end

-- The head of an entry: its version, when it goes stale, and when it was fetched. Numbers from UNSOUND on are not exact, and no
-- node writes them.
local HEAD = '>I8I8I8'
local HEAD_BYTES = 24
local UNSOUND = 2 ^ 53

local function head(entry)
  local start = redis.call('GETRANGE', entry, 0, HEAD_BYTES - 1)
  if #start < HEAD_BYTES then
    return 0, 0, 0
  end
  local version, fresh_until, learned_at = struct.unpack(HEAD, start)
  if math.max(version, fresh_until, learned_at) >= UNSOUND then
    return UNSOUND, 0, 0
  end
  return version, fresh_until, learned_at
end

local function body(entry)
  return redis.call('GETRANGE', entry, HEAD_BYTES, -1)
end

-- Parses a node's last beat into its time and its content. Returns nothing if it is older than five seconds.
local function recent(value)
  local at, what = (value or ''):match('^(%d+) (.*)$')
  at = tonumber(at or '')
  if at and math.abs(now - at) < 5000000 then
    return at, what
  end
end
