//! The scripts: what the engine has to do atomically.

use std::sync::LazyLock;

use redis::Script;

/// A script that runs even when the engine's memory is full, so that delays are kept when no record can be added.
macro_rules! always {
    ($file:literal) => {
        Lua::new(
            concat!(
                "#!lua flags=allow-oom\n",
                include_str!("lua/common.lua"),
                include_str!($file)
            ),
            $file,
        )
    };
}

/// A script that fails when the engine's memory is full.
macro_rules! with_room {
    ($file:literal) => {
        Lua::new(
            concat!(
                "#!lua\n",
                include_str!("lua/common.lua"),
                include_str!($file)
            ),
            $file,
        )
    };
}

/// A script.
#[derive(Debug)]
pub(super) struct Lua {
    pub(super) code: &'static str,
    pub(super) hash: String,
    pub(super) file: &'static str,
}

impl Lua {
    fn new(code: &'static str, file: &'static str) -> Self {
        let hash = Script::new(code).get_hash().to_owned();
        Self { code, hash, file }
    }
}

/// All scripts.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) claim: Lua,
    pub(super) settle: Lua,
    pub(super) forget: Lua,
    pub(super) release: Lua,
    pub(super) record: Lua,
    pub(super) take: Lua,
    pub(super) leave: Lua,
    pub(super) answered: Lua,
    pub(super) resting: Lua,
    pub(super) join: Lua,
    pub(super) beat: Lua,
    pub(super) part: Lua,
}

pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    claim: always!("lua/claim.lua"),
    settle: with_room!("lua/settle.lua"),
    forget: always!("lua/forget.lua"),
    release: always!("lua/release.lua"),
    record: always!("lua/record.lua"),
    take: always!("lua/take.lua"),
    leave: always!("lua/leave.lua"),
    answered: always!("lua/answered.lua"),
    resting: always!("lua/resting.lua"),
    join: always!("lua/join.lua"),
    beat: always!("lua/beat.lua"),
    part: always!("lua/part.lua"),
});
