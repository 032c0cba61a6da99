//! Empty: the package consists of its benches.
