-- KEYS: entry, lease, log, born. ARGV: node, origin, the lease's token (0: none), kind, age, time until it is stale, time until
-- it is deleted, the record, the version that is sealed in it (0: none). Returns 'kept', 'older', or the version that its own
-- has to be above.
local entry, lease, log, born_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local node, origin, token, kind = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local learned_at, own_version = now - tonumber(ARGV[5]), tonumber(ARGV[9])

-- Whatever its token: the answer to this node's claim may have been lost.
if redis.call('GET', lease) == node then
  redis.call('DEL', lease)
end
local version, _, known_at = head(entry)
if version >= UNSOUND then
  version = 0
end
if token == 0 then
  if version > 0 and known_at >= learned_at then
    return 'older'
  end
  if own_version > 0 and own_version <= version then
    return text(version)
  end
  token = own_version > 0 and own_version or math.max(now, version + 1)
elseif token <= version then
  return 'older'
end
local value = struct.pack(HEAD, token, now + tonumber(ARGV[6]), learned_at) .. ARGV[8]
redis.call('SET', entry, value, 'PX', milliseconds(tonumber(ARGV[7])))
if kind == 'changed' then
  note(log, born_key, node, origin, kind)
end
return 'kept'
