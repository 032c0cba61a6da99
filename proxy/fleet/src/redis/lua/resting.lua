-- KEYS: rests. Returns the origins that rest, each with the time left.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now))
local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
local answer = {}
for at = 1, #found, 2 do
  answer[#answer + 1] = { found[at], math.ceil(tonumber(found[at + 1]) - now) }
end
return answer
