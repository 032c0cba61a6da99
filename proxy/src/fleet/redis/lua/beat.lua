-- KEYS: nodes. ARGV: node, what it says of itself. Returns the time in milliseconds and the nodes that were heard of in the
-- last five seconds, each with what it says of itself.
redis.call('HSET', KEYS[1], ARGV[1], text(now) .. ' ' .. ARGV[2])
local answer = { math.floor(now / 1000) }
local nodes = redis.call('HGETALL', KEYS[1])
for at = 1, #nodes, 2 do
  local heard_at, about = nodes[at + 1]:match('^(%d+) (.*)$')
  if now - tonumber(heard_at) < 5000000 then
    answer[#answer + 1] = nodes[at]
    answer[#answer + 1] = about
  else
    redis.call('HDEL', KEYS[1], nodes[at])
  end
end
return answer
