-- KEYS: entry. Returns the record's age, bytes and version, or nothing.
local version, _, learned_at = head(KEYS[1])
if version == 0 then
  return false
end
return { math.max(now - learned_at, 0), body(KEYS[1]), version }
