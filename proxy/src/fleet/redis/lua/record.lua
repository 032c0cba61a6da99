-- KEYS: entry. Returns its age and what is known, or nothing.
local version, _, learned_at = head(KEYS[1])
if version == 0 then
  return false
end
return { math.max(now - learned_at, 0), body(KEYS[1]) }
