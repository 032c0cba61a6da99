-- KEYS: nodes, processes, settings, twin. ARGV: node, its process ('': none, somebody only looks), what it says of itself, the
-- settings that all must have, 1 if it joins, when another process of this name was last heard of (0: not yet).
-- Returns 'ok', the time in milliseconds and the nodes that were heard of in the last five seconds, each with what it says of
-- itself. Or 'taken' and when another process of this name was heard of; 'twins', if that is alive; 'settings' and those of
-- the fleet.
local nodes, processes, settings, twin = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local node, process = ARGV[1], ARGV[2]

if ARGV[5] == '1' then
  local known = redis.call('GET', settings)
  if known and known ~= ARGV[4] then
    return { 'settings', known }
  end
end
if process == '' then
  if redis.call('GET', twin) then
    return { 'twins' }
  end
else
  local heard_at, holder = heard(redis.call('HGET', processes, node))
  if holder and holder ~= process then
    if ARGV[6] ~= '0' and ARGV[6] ~= text(heard_at) then
      redis.call('SET', twin, process, 'PX', 60000)
      return { 'twins' }
    end
    return { 'taken', text(heard_at) }
  end
  redis.call('HSET', processes, node, text(now) .. ' ' .. process)
  redis.call('HSET', nodes, node, text(now) .. ' ' .. ARGV[3])
  redis.call('SET', settings, ARGV[4], 'PX', 5000)
end
local answer = { 'ok', math.floor(now / 1000) }
local known = redis.call('HGETALL', nodes)
for at = 1, #known, 2 do
  local heard_at, about = heard(known[at + 1])
  if heard_at then
    answer[#answer + 1] = known[at]
    answer[#answer + 1] = about
  else
    -- Gone, or nothing that a node wrote.
    redis.call('HDEL', nodes, known[at])
    redis.call('HDEL', processes, known[at])
  end
end
return answer
