//! The beginning of a session whose objects are known: from the start, or from where an earlier sender was.

use treecast_host::poller::Poller;
use treecast_proto::{Instant, object::SenderInput};

use super::{
    super::{
        super::{Plan, SendError},
        core::Core,
    },
    Objects,
};
use crate::files::{NamedSource, SourceError};

impl Objects {
    /// Hands the machine all objects.
    pub fn send_all(
        &mut self,
        now: Instant,
        plan: &mut Plan,
        poller: &Poller,
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        let mut to_hash = Vec::new();
        for (index, named) in std::mem::take(&mut plan.sources).into_iter().enumerate() {
            let before = plan.before.get(&(index as u32)).copied().unwrap_or_default();
            let size = named.source.size();
            match before.hash {
                Some(hash) if before.sent >= size => self.send_over(named, hash, core)?,
                None if before.sent == 0 => {
                    let again = named.source.has_index().then(|| named.source.twin());
                    let file = self.send(now, named, core)?;
                    to_hash.extend(again.map(|again| (file, again)));
                }
                hash => {
                    let again = named.source.twin();
                    let begin = named.begin()?;
                    let Some(machine) = core.machine.vcmtp_mut() else { return Ok(()) };
                    let file = machine.send_from(now, begin, before.sent);
                    self.sources.add(file, named);
                    match hash {
                        Some(hash) => core.handle(now, SenderInput::Hashed { file, hash }),
                        None => to_hash.push((file, again)),
                    }
                }
            }
        }
        core.figures.before_bytes = core.machine.figures().multicast_bytes;
        core.wake();
        if !to_hash.is_empty() {
            self.hash_apart(to_hash, poller)?;
        }
        Ok(())
    }

    /// Takes an object that an earlier sender has sent to its end.
    fn send_over(
        &mut self,
        named: NamedSource,
        hash: [u8; 32],
        core: &mut Core<'_>,
    ) -> Result<(), SourceError> {
        let begin = named.begin()?;
        let Some(machine) = core.machine.vcmtp_mut() else { return Ok(()) };
        let file = machine.send_over(begin, hash);
        self.sources.add(file, named);
        core.figures.objects_done += u64::from(!self.sources.is_index(file));
        self.sources.finish(file);
        Ok(())
    }
}
