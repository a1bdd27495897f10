//! What the two sides of a session have in common: a thread, events, and a result.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use treecast_host::{stop::Stop, thread};

use crate::{
    Error,
    events::{Callback, Events},
    place::Place,
    wait::Watched,
};

/// The result of a session, once it is there. It is taken once.
type End<R> = Watched<Option<Result<R, Error>>>;

/// A session that runs in a thread of its own. `E` are its events, `R` is its report.
#[derive(Debug)]
pub(crate) struct Session<E, R> {
    pub events: Events<E>,
    pub stop: Stop,
    pub place: Place,
    end: Arc<End<R>>,
}

impl<E: Send + 'static, R: Send + 'static> Session<E, R> {
    pub fn new(callback: Option<Callback<E>>, missed: fn(u64) -> E) -> io::Result<Self> {
        let place = Place::new();
        let events = Events::new(callback, missed, place.clone());
        Ok(Self { events, stop: Stop::new()?, place, end: Arc::default() })
    }

    /// Runs the session's thread, and keeps its result. When the result is there, the thread holds nothing of the session any
    /// more, so that a program which ends then leaves nothing behind.
    pub fn run(
        self: &Arc<Self>,
        name: &str,
        run: impl FnOnce(&Self) -> Result<R, Error> + Send + 'static,
    ) -> io::Result<()> {
        let mut ending = Ending { result: Some(Err(Error::panicked())), end: self.end.clone() };
        let session = Running(self.clone());
        let body = move || {
            session.0.place.enter();
            ending.result = Some(run(&session.0));
            drop(session);
            drop(ending);
        };
        thread::spawn(name, body).map(drop)
    }

    /// Asks the session to end. A child that was forked leaves it alone.
    pub fn request_stop(&self) {
        if self.place.is_in_process() {
            self.stop.request();
        }
    }

    /// Waits until the session is over, for at most this time, and leaves its report to others. Returns at once where that cannot
    /// come to pass.
    pub fn wait_for_end(&self, time: Duration) {
        if self.place.can_wait() {
            self.end.wait_timeout(time, |end| end.is_some().then_some(()));
        }
    }

    pub fn finish(&self) -> Finish<R> {
        Finish { end: self.end.clone(), place: self.place.clone() }
    }
}

/// A session whose thread runs. Its events end with it, also when the thread panics.
struct Running<E, R>(Arc<Session<E, R>>);

impl<E, R> Drop for Running<E, R> {
    fn drop(&mut self) {
        self.0.events.end();
    }
}

/// Tells the result of a session, also when its thread panics.
struct Ending<R> {
    result: Option<Result<R, Error>>,
    end: Arc<End<R>>,
}

impl<R> Drop for Ending<R> {
    fn drop(&mut self) {
        let result = self.result.take();
        self.end.change(|end| *end = result);
    }
}

/// The end of a session with its report: `.await` it, or block with [`Finish::wait`].
///
/// The report can be taken once. Whoever comes later gets [`ErrorKind::Closed`](crate::ErrorKind::Closed) as soon as it is taken.
#[must_use = "the session goes on in its thread; this waits for its end"]
#[derive(Debug)]
pub struct Finish<R> {
    end: Arc<End<R>>,
    place: Place,
}

impl<R> Finish<R> {
    /// Blocks this thread until the session is over.
    ///
    /// # Errors
    /// If nothing could be sent or received. Objects and receivers that failed are in the report.
    /// [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock) in a function that the session calls, and
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) in a child that was forked.
    pub fn wait(self) -> Result<R, Error> {
        self.place.check_wait()?;
        self.end.wait(take)
    }

    /// Blocks this thread for at most this time. `None` if the session is not over then.
    pub fn wait_timeout(&self, time: Duration) -> Option<Result<R, Error>> {
        match self.place.check_wait() {
            Ok(()) => self.end.wait_timeout(time, take),
            Err(error) => Some(Err(error)),
        }
    }
}

fn take<R>(end: &mut Option<Result<R, Error>>) -> Option<Result<R, Error>> {
    end.is_some().then(|| end.replace(Err(Error::taken()))).flatten()
}

impl<R> Future for Finish<R> {
    type Output = Result<R, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.end.poll(context, take)
    }
}
