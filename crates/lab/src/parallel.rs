//! Does the same work for many items, on as many threads as the machine has processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Calls `work` with every index below `count` and returns the results in order, or the first error.
///
/// Every call runs on a thread that ends with this function, so `work` may move its thread into
/// another namespace. Once a call has failed, no further one is begun.
pub fn map<T: Send, E: Send>(count: usize, work: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    map_on(thread::available_parallelism().map_or(2, usize::from), count, work)
}

/// Like [`map`], on up to `threads` threads, for work that mostly waits.
pub(crate) fn map_on<T: Send, E: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok(done);
            }
            match work(index) {
                Ok(result) => done.push((index, result)),
                Err(error) => {
                    next.store(count, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let threads = threads.min(count.max(1));
    let mut all = Vec::with_capacity(count);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => all.extend(done?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })?;
    all.sort_unstable_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

/// Calls `work` on a separate thread, which may therefore change its namespace.
pub fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let joined = thread::scope(|scope| scope.spawn(work).join());
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_order_and_an_error_ends_the_work() {
        assert_eq!(super::map(1000, |n| Ok::<_, ()>(n * n)).unwrap()[999], 998_001);
        assert_eq!(super::map(1000, |n| if n == 7 { Err(n) } else { Ok(()) }), Err(7));
        assert_eq!(super::map(0, |_| Ok::<_, ()>(0)), Ok(vec![]));
    }
}
