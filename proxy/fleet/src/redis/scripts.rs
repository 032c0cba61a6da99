//! The scripts: the steps that the engine has to take atomically.

use std::sync::LazyLock;

use redis::Script;

/// A script that runs even when the engine's memory is full, so that delays are kept when no record can be added.
macro_rules! always {
    ($file:literal) => {
        LuaScript::new(
            concat!("#!lua flags=allow-oom\n", include_str!("lua/common.lua"), include_str!($file)),
            $file,
        )
    };
}

/// A script that fails when the engine's memory is full.
macro_rules! with_room {
    ($file:literal) => {
        LuaScript::new(
            concat!("#!lua\n", include_str!("lua/common.lua"), include_str!($file)),
            $file,
        )
    };
}

/// A script.
#[derive(Debug)]
pub(super) struct LuaScript {
    pub(super) code: &'static str,
    pub(super) hash: String,
    pub(super) file: &'static str,
}

impl LuaScript {
    fn new(code: &'static str, file: &'static str) -> Self {
        let hash = Script::new(code).get_hash().to_owned();
        Self { code, hash, file }
    }
}

/// All scripts.
#[derive(Debug)]
pub(super) struct LuaScripts {
    pub(super) claim: LuaScript,
    pub(super) settle: LuaScript,
    pub(super) forget: LuaScript,
    pub(super) release: LuaScript,
    pub(super) record: LuaScript,
    pub(super) take: LuaScript,
    pub(super) leave: LuaScript,
    pub(super) answered: LuaScript,
    pub(super) resting: LuaScript,
    pub(super) spend: LuaScript,
    pub(super) pace: LuaScript,
    pub(super) head: LuaScript,
    pub(super) heads: LuaScript,
    pub(super) join: LuaScript,
    pub(super) beat: LuaScript,
    pub(super) part: LuaScript,
}

pub(super) static SCRIPTS: LazyLock<LuaScripts> = LazyLock::new(|| LuaScripts {
    claim: always!("lua/claim.lua"),
    settle: with_room!("lua/settle.lua"),
    forget: always!("lua/forget.lua"),
    release: always!("lua/release.lua"),
    record: always!("lua/record.lua"),
    take: always!("lua/take.lua"),
    leave: always!("lua/leave.lua"),
    answered: always!("lua/answered.lua"),
    resting: always!("lua/resting.lua"),
    spend: always!("lua/spend.lua"),
    pace: always!("lua/pace.lua"),
    head: always!("lua/head.lua"),
    heads: always!("lua/heads.lua"),
    join: always!("lua/join.lua"),
    beat: always!("lua/beat.lua"),
    part: always!("lua/part.lua"),
});
