-- KEYS: born. Returns the number of the last note, the server's product and version, its eviction policy, the memory in use,
-- and its run_id.
born(KEYS[1])
local server, memory = redis.call('INFO', 'server'), redis.call('INFO', 'memory')
local version = server:match('valkey_version:([%d.]+)')
local name = version and 'Valkey ' .. version or 'Redis ' .. server:match('redis_version:([%d.]+)')
return {
  tonumber(redis.call('HGET', KEYS[1], 'seq')),
  name,
  memory:match('maxmemory_policy:([%w-]+)'),
  tonumber(memory:match('used_memory:(%d+)')),
  server:match('run_id:(%w+)'),
}
