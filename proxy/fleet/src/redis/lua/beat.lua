-- KEYS: nodes, processes, settings, twin. ARGV: node, its process ('' for an observer), its version, the settings that all
-- nodes must share, 1 if it joins, the last beat of another process of this name as returned before (0: none yet).
-- Returns 'ok', the time in milliseconds and the nodes that have beaten in the last five seconds, each with its version. Or
-- 'taken' and the last beat of another process of this name; 'twins' if that process has beaten again; 'settings' and those
-- of the fleet if they differ.
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
  local beat_at, holder = recent(redis.call('HGET', processes, node))
  if holder and holder ~= process then
    if ARGV[6] ~= '0' and ARGV[6] ~= text(beat_at) then
      redis.call('SET', twin, process, 'PX', 60000)
      return { 'twins' }
    end
    return { 'taken', text(beat_at) }
  end
  redis.call('HSET', processes, node, text(now) .. ' ' .. process)
  redis.call('HSET', nodes, node, text(now) .. ' ' .. ARGV[3])
  redis.call('SET', settings, ARGV[4], 'PX', 5000)
end
local answer = { 'ok', math.floor(now / 1000) }
local known = redis.call('HGETALL', nodes)
for at = 1, #known, 2 do
  local beat_at, about = recent(known[at + 1])
  if beat_at then
    answer[#answer + 1] = known[at]
    answer[#answer + 1] = about
  else
    -- It has not beaten lately, or no node wrote it.
    redis.call('HDEL', nodes, known[at])
    redis.call('HDEL', processes, known[at])
  end
end
return answer
