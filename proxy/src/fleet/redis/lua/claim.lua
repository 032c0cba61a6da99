-- KEYS: entry, lease. ARGV: node, the age that what is known must be below (-1: any), how long the lease lasts.
-- Returns what to do, a number for it, the age of what is known, and that.
local entry, lease = KEYS[1], KEYS[2]
local node, newer_than, term = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local version, fresh_until, learned_at = head(entry)
local age = math.max(now - learned_at, 0)
local is_new = newer_than < 0 or age < newer_than
if version > 0 and is_new and fresh_until > now then
  return { 'known', 0, age, body(entry) }
end
local holder = redis.call('GET', lease)
if holder and holder ~= node then
  return { 'wait', redis.call('PTTL', lease) * 1000, 0, '' }
end
redis.call('SET', lease, node, 'PX', milliseconds(term))
local token = math.max(now, version + 1)
return { 'fetch', token, age, version > 0 and body(entry) or '' }
