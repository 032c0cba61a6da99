-- KEYS: pace, rest, born. ARGV: the version of the pace that the node knows, the pace that it found since ('': none) and the time
-- between two turns at that pace, the shortest time since the last turn, the number of requests (0: no turn is needed), the longest
-- wait, the time to keep the pace, 1 to wait for the end of the rest. The rules are those of `fleet/pace_turn.rs`.
-- Returns the version, the pace, the requests of all nodes, the time until the turn, and 1 if it was granted.
--
-- pace is a hash: 'v' is the version, 'p' the pace, 'i' the time between two turns, 'at' the time of the last one, 'n' the requests
-- of all nodes.
local key = KEYS[1]
local known, proposed, proposed_interval = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local own_interval, requests, timeout = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local LATE = 10000

local fields = redis.pcall('HMGET', key, 'v', 'p', 'i', 'at', 'n')
if failed(fields, key) then
  fields = {}
end
local version, pace = tonumber(fields[1] or 0) or 0, fields[2] or ''
local interval, total = tonumber(fields[3] or 0) or 0, tonumber(fields[5] or 0) or 0
if proposed ~= '' and (version == 0 or version == known) then
  version, pace, interval = known + 1, proposed, proposed_interval
  redis.call('HSET', key, 'v', text(version), 'p', pace, 'i', text(interval))
end
interval = math.max(interval, own_interval)
-- A server that was restarted does not know the last turn, which was before.
local last_at = tonumber(fields[4] or '') or born(KEYS[3])
local turn_at = math.max(now - math.min(interval, LATE), last_at + interval)
local rested_at = ARGV[8] == '1' and tonumber(redis.call('HGET', KEYS[2], 'until') or 0) or 0
if rested_at > now then
  turn_at = math.max(turn_at, rested_at)
end
local wait = math.max(turn_at - now, 0)
local granted = requests > 0 and wait <= timeout
if granted then
  total = total + requests
  redis.call('HSET', key, 'at', text(turn_at), 'n', text(total))
end
redis.call('PEXPIRE', key, milliseconds(wait + tonumber(ARGV[7])))
return { text(version), pace, text(total), math.ceil(wait), granted and 1 or 0 }
