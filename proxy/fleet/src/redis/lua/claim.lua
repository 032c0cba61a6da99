-- KEYS: entry, lease. ARGV: node, the age that the record must be below (-1: any), the duration of the lease, the version of a
-- record that failed verification (0: none).
-- Returns 'known', 'wait' or 'fetch', a number for it (nothing, the time left, the token), and the record's age, bytes and
-- version.
local entry, lease = KEYS[1], KEYS[2]
local node, newer_than, term = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- Far longer than any fetch.
local LONGEST = 3600000

local version, fresh_until, learned_at = head(entry)
if version > 0 and version == tonumber(ARGV[4]) then
  redis.call('DEL', entry)
  version, fresh_until, learned_at = 0, 0, 0
end
local age = math.max(now - learned_at, 0)
local is_new = newer_than < 0 or age < newer_than
if version > 0 and is_new and fresh_until > now then
  return { 'known', 0, age, body(entry), version }
end
local holder = redis.call('GET', lease)
local left = redis.call('PTTL', lease)
-- No node sets a lease without an end.
if holder and holder ~= node and left >= 0 and left <= LONGEST then
  return { 'wait', left * 1000, 0, '', 0 }
end
redis.call('SET', lease, node, 'PX', milliseconds(term))
local token = version < UNSOUND and math.max(now, version + 1) or now
return { 'fetch', token, age, version > 0 and body(entry) or '', version }
