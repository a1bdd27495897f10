//! The futures of the library, without a runtime: only what the standard library has.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use treecast::{ErrorKind, Group, GroupEvent, Receiver, ReceiverEvent};

/// Runs a future in this thread, which sleeps while there is nothing to do.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs futures at the same time, and returns their outputs in order.
async fn join<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// One thread holds a sender, its events and two receivers.
#[test]
fn a_group_and_two_receivers_are_tasks_of_one_thread() {
    const OBJECTS: usize = 40;
    let group = Group::builder().interface("lo").wait(2).most_outstanding(8).start().unwrap();
    let join_group = || Receiver::builder(group.ticket().clone()).interface("lo").in_memory().join().unwrap();
    let receivers = [join_group(), join_group()];
    let send = async {
        let mut sent = Vec::new();
        for number in 0..OBJECTS {
            group.room().await;
            sent.push(group.send_bytes(format!("{number:02}"), vec![number as u8; 5000]).unwrap());
        }
        let end = group.close();
        let mut done = 0;
        for transfer in sent {
            done += usize::from(transfer.await.is_complete());
        }
        assert!(end.await.unwrap().is_complete());
        assert_eq!(group.finish().await.unwrap_err().kind(), ErrorKind::Closed);
        done
    };
    let count_events = async {
        let mut done = 0;
        while let Some(event) = group.next_event().await {
            done += usize::from(matches!(event, GroupEvent::Done(_)));
        }
        done
    };
    let mut tasks: Vec<Pin<Box<dyn Future<Output = usize> + '_>>> =
        vec![Box::pin(send), Box::pin(count_events)];
    for receiver in &receivers {
        tasks.push(Box::pin(receive(receiver)));
    }
    assert_eq!(block_on(join(tasks)), [OBJECTS; 4]);
}

/// Returns how many objects have come, each as it should be.
async fn receive(receiver: &Receiver) -> usize {
    let mut came = 0;
    while let Some(event) = receiver.next_event().await {
        if let ReceiverEvent::Received(object) = event {
            let number: u8 = object.name().parse().unwrap();
            assert!(object.into_bytes().unwrap() == [number; 5000]);
            came += 1;
        }
    }
    assert!(receiver.finish().await.unwrap().is_complete());
    came
}
