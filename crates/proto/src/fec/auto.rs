//! Decides how many repair symbols to send: ahead of any request, and in answer to what receivers say that they
//! lack.

use std::collections::BTreeMap;

use treecast_wire::message::Lack;

/// A receiver's loss is that of about so many recent symbols.
const MEMORY: f64 = 6_000.0;

/// The number of symbols, lost at the group's usual rate, that are mixed into what is known of a receiver. A
/// report on a source block of seven symbols says little.
const PRIOR: f64 = 8.0;

/// No loss is taken for higher than this: beyond it, another round costs less than a mistake.
const MAX_LOSS: f64 = 0.8;

/// The loss above which the group's packets do not reach a receiver, 0 to 1. Mostly its own host drops them.
const HOPELESS_LOSS: f64 = 0.75;

/// The number of symbols of which a receiver gets nothing if the group does not reach it, at least for now.
const ENOUGH: u32 = 64;

/// The number of symbols that tell whether the group reaches a receiver again.
const PROBE: u32 = 2 * ENOUGH;

/// The number of rounds of symbols to the group after which a receiver that has got nothing of them gets them
/// for itself.
const ROUNDS_IN_VAIN: u32 = 2;

/// The most source blocks of a receiver of which rounds are counted: it mostly lacks the same in all of them.
const MOST_COUNTED: usize = 16;

/// The cost of a symbol over a receiver's own connection, in symbols to the group: packet headers and
/// acknowledgements, and what the same link loses again.
const APART_COST: f64 = 2.0;

/// A receiver that loses less than this share of what another loses is better off than that.
const ALIKE: f64 = 0.8;

/// The cost of a block over a receiver's own connection, in symbols to the group: acknowledgements, and what
/// is lost again.
const NAMED_COST: f64 = 1.1;

/// Whether a receiver that lacks so many of a source block's blocks is not reached by the group, as far as that tells.
pub(crate) fn is_out_of_reach(lacking: u32, symbols: u32) -> bool {
    f64::from(lacking) > f64::from(symbols) * HOPELESS_LOSS
}

/// The number of repair symbols that follow each source block before anybody asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// This number of repair symbols for every 100 blocks.
    Percent(u32),
    /// The number of repair symbols that nine of ten receivers have lately needed.
    Auto,
    /// The same as [`Self::Auto`], but only once several receivers have lost so much that symbols for all of
    /// them are fewer than blocks for each. Until then the sender sends lost blocks again.
    Needed,
}

/// The sender's answer to a receiver's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The group is to have symbols up to this number.
    Group(u32),
    /// This number of symbols goes to this receiver alone.
    Apart(u32),
}

/// The symbols and blocks that the group gets without further asking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToGo {
    /// The number of symbols of the source block in question that have been sent.
    pub symbols: u32,
    /// Whether all blocks of the object have been sent, so that only symbols are left to send.
    pub is_out: bool,
}

/// The number of symbols that a receiver can lack of a source block of so many, whatever it says. It may be a
/// few more than the block has, where decoding has failed.
fn possible(lacking: u32, symbols: u32) -> u32 {
    const SPARE: u32 = 64;
    lacking.min(symbols.saturating_add(SPARE))
}

/// The loss of each receiver, as far as it says so.
#[derive(Debug)]
pub(crate) struct Estimate {
    share: Share,
    receivers: BTreeMap<u32, Loss>,
    /// The number of source blocks that have been out.
    out: u64,
    /// The last object and source block that went out while the rate was being found.
    before_rate: Option<(u32, u32)>,
}

#[derive(Debug, Default)]
struct Loss {
    sent: f64,
    lost: f64,
    /// The receiver's last report: object and source block, then what of it was out and lacking.
    last: Option<(u32, u32)>,
    last_next: u32,
    last_lacking: u32,
    /// Symbols of that source block go to it alone: what it gets says nothing about the group.
    is_apart: bool,
    /// The object of which it was last served apart. That goes on when the others, which are done sooner,
    /// have left.
    apart_of: Option<u32>,
    /// Whether nothing has arrived of the source block that it reported last.
    got_none: bool,
    /// Whether nothing has arrived, either, of the symbols that the group has been sent for it since.
    got_none_again: bool,
    /// [`Estimate::out`] when it last reported anything.
    reported: u64,
    rounds: Rounds,
}

/// The rounds of symbols to the group in which a receiver has got nothing, however few symbols they had. Short packets, which say
/// that symbols are out, may get through where symbols do not.
#[derive(Debug, Default)]
struct Rounds {
    /// The last report on each object and source block.
    counted: BTreeMap<(u32, u32), Round>,
    /// Whether the group's symbols are of no use to the receiver, as far as is known.
    are_in_vain: bool,
}

#[derive(Debug, Clone, Copy)]
struct Round {
    lacking: u32,
    /// The number behind the last symbol that was out.
    next: u32,
    in_vain: u32,
}

impl Rounds {
    /// Takes note of what a receiver lacks of a source block of so many symbols.
    fn note(&mut self, of: (u32, u32), symbols: u32, lack: Lack) {
        let Some(round) = self.counted.get_mut(&of) else {
            // It has got much of this source block while others were sent for nothing.
            self.are_in_vain &= is_out_of_reach(lack.lacking, symbols);
            if self.counted.len() >= MOST_COUNTED {
                self.counted.pop_first();
            }
            self.counted.insert(of, Round { lacking: lack.lacking, next: lack.next, in_vain: 0 });
            return;
        };
        if lack.lacking < round.lacking {
            round.in_vain = 0;
        } else if lack.next > round.next {
            round.in_vain += 1;
        }
        (round.lacking, round.next) = (lack.lacking, round.next.max(lack.next));
        self.are_in_vain |= round.in_vain >= ROUNDS_IN_VAIN;
    }

    fn forget(&mut self, index: u32) {
        self.counted.retain(|(other, _), _| *other != index);
    }
}

impl Estimate {
    pub(crate) fn new(share: Share) -> Self {
        Self { share, receivers: BTreeMap::new(), out: 0, before_rate: None }
    }

    pub(crate) fn join(&mut self, receiver: u32) {
        self.receivers.insert(receiver, Loss { reported: self.out, ..Loss::default() });
    }

    pub(crate) fn leave(&mut self, receiver: u32) {
        self.receivers.remove(&receiver);
    }

    /// Forgets an object of which nothing more goes out.
    pub(crate) fn forget(&mut self, index: u32) {
        self.receivers.values_mut().for_each(|loss| loss.rounds.forget(index));
    }

    /// Source blocks up to this one went out while the rate was being found. What got lost of them then says nothing of the path: the
    /// sender has tried more than the path bears.
    pub(crate) fn rate_was_unknown(&mut self, index: u32, source_block: u32) {
        self.before_rate = Some((index, source_block));
    }

    /// Returns the number of repair symbols that follow a source block of so many symbols. A receiver that
    /// has not complained for two source blocks has lost no more than was sent ahead. Behind the last one
    /// (`is_last`), with nothing else to send while receivers ask for more, there are as many as hardly any
    /// of them will not find enough.
    pub(crate) fn ahead(&mut self, symbols: u32, is_last: bool) -> u32 {
        let symbols_f = f64::from(symbols);
        if let Share::Percent(percent) = self.share {
            return (symbols_f * f64::from(percent) / 100.0).ceil() as u32;
        }
        let usual = self.usual();
        let deviations = if is_last { self.deviations() } else { 0.0 };
        let ahead = (needed(symbols_f, usual, deviations) - symbols_f).round();
        self.out += 1;
        for loss in self.receivers.values_mut().filter(|loss| loss.reported + 2 < self.out) {
            let sent = symbols_f + ahead;
            loss.add(sent, loss.rate(0.0).min(ahead / sent) * sent * 0.75);
        }
        ahead as u32
    }

    /// A receiver lacks symbols of a source block of an object that has `symbols` blocks, of which `to_go` symbols are to
    /// go to the group anyway. All that it says at a time has been noted before: what it lost last says most of how to
    /// mend what it lost first.
    pub(crate) fn lack(&mut self, receiver: u32, index: u32, symbols: u32, lack: Lack, to_go: ToGo) -> Wish {
        let are_in_vain = self.note_round(receiver, index, symbols, lack);
        let rate = self.rate(receiver);
        let lacking = possible(lack.lacking, symbols);
        if !are_in_vain && self.may_be_reached_again(receiver) {
            return Wish::Group(lack.next.saturating_add(lacking.min(PROBE)));
        }
        let want = f64::from(lacking);
        // A round costs no time while the object is going out. Later it costs more than a few symbols.
        let deviations = if to_go.is_out { self.deviations() } else { 0.0 };
        let wanted = needed(want, rate, deviations).ceil() as u32;
        let others = self.receivers.values().filter(|loss| loss.rate(0.0) < rate * ALIKE).count();
        let is_cheaper_apart = is_cheaper_apart(self.receivers.len() - others, rate);
        let was_apart = self.receivers.get(&receiver).is_some_and(|loss| loss.apart_of == Some(index));
        let is_hopeless = are_in_vain || rate > HOPELESS_LOSS || self.is_unreached(receiver);
        if is_hopeless || is_cheaper_apart && (others > 0 || was_apart) {
            if let Some(loss) = self.receivers.get_mut(&receiver) {
                loss.is_apart = true;
                loss.apart_of = Some(index);
            }
            let coming = if are_in_vain { 0.0 } else { f64::from(to_go.symbols) * (1.0 - rate) };
            return Wish::Apart((want - coming).max(0.0).ceil() as u32);
        }
        Wish::Group(lack.next.saturating_add(wanted))
    }

    /// Takes note of a report. Returns whether the receiver has got nothing of several rounds of symbols to the group.
    fn note_round(&mut self, receiver: u32, index: u32, symbols: u32, lack: Lack) -> bool {
        let Some(loss) = self.receivers.get_mut(&receiver) else { return false };
        loss.rounds.note((index, lack.source_block), symbols, lack);
        loss.rounds.are_in_vain
    }

    /// Whether the group is of no use to a receiver: nothing has reached it, and nobody else was in its case, or nothing has again.
    fn is_unreached(&self, receiver: u32) -> bool {
        let loss = self.receivers.get(&receiver);
        loss.is_some_and(|loss| loss.got_none && (loss.got_none_again || self.unreached() == 1))
    }

    /// Whether nothing has reached a receiver and others. If that is over the group mends all of them at once, which is worth
    /// finding out.
    fn may_be_reached_again(&self, receiver: u32) -> bool {
        let loss = self.receivers.get(&receiver);
        loss.is_some_and(|loss| loss.got_none && !loss.got_none_again) && self.unreached() > 1
    }

    fn unreached(&self) -> usize {
        self.receivers.values().filter(|loss| loss.got_none).count()
    }

    /// Counts what a receiver has lost of a source block of so many symbols, by what it says that it lacks.
    pub(crate) fn note(&mut self, receiver: u32, index: u32, symbols: u32, lack: Lack) {
        let lack = Lack { lacking: possible(lack.lacking, symbols), ..lack };
        let out = self.out;
        let (this, received) = ((index, lack.source_block), symbols.saturating_sub(lack.lacking));
        let is_of_path = self.before_rate.is_none_or(|last| last < this);
        let Some(loss) = self.receivers.get_mut(&receiver) else { return };
        loss.reported = out;
        let (sent, received) = match loss.last {
            Some(last) if last > this || last == this && loss.is_apart => return,
            Some(last) if last == this && lack.lacking <= loss.last_lacking => {
                let received = loss.last_lacking.saturating_sub(lack.lacking);
                (lack.next.saturating_sub(loss.last_next), received)
            }
            _ => (lack.next.max(symbols), received),
        };
        // That nothing arrives is no loss of which there is more or less.
        if received == 0 && sent >= ENOUGH {
            (loss.got_none, loss.got_none_again) = (true, loss.got_none_again || loss.last == Some(this));
        } else {
            if received > 0 {
                (loss.got_none, loss.got_none_again) = (false, false);
            }
            if is_of_path {
                loss.add(f64::from(sent), f64::from(sent.saturating_sub(received)));
            }
        }
        (loss.last, loss.last_next, loss.last_lacking) = (Some(this), lack.next, lack.lacking);
        loss.is_apart = false;
    }

    /// Whether symbols to the group are to take the place of what receivers have named of a source block, so many blocks each.
    /// Decoding costs processor time in proportion to the source block, however little is lost: saving next to nothing is not
    /// worth it.
    pub(crate) fn is_worth(&self, symbols: u32, named: impl Iterator<Item = u32>) -> bool {
        const SURE: f64 = 1.25;
        const WORTH_SHARE: u32 = 256;
        let (sum, most) = named
            .fold((0.0, 0.0), |(sum, most), lost: u32| (sum + f64::from(lost), f64::max(most, lost.into())));
        if self.share != Share::Needed {
            return sum > 0.0;
        }
        let loss = (most / f64::from(symbols.max(1))).min(MAX_LOSS);
        let (apart, group) = (sum * NAMED_COST, needed(most, loss, 0.0));
        apart > group * SURE && apart - group >= f64::from((symbols / WORTH_SHARE).max(1))
    }

    /// The number of standard deviations that are made up for where the next round would cost time. About one
    /// time in ten, one of all receivers needs it all the same.
    fn deviations(&self) -> f64 {
        const UNLIKELY: f64 = 5.0;
        (2.0 * (self.receivers.len().max(1) as f64 * UNLIKELY).ln()).sqrt()
    }

    /// The loss of a receiver, between 0 and [`MAX_LOSS`].
    fn rate(&self, receiver: u32) -> f64 {
        let usual = self.usual();
        self.receivers.get(&receiver).map_or(usual, |loss| loss.rate(usual)).clamp(0.0, MAX_LOSS)
    }

    /// The loss that nine of ten receivers do not exceed. The few that lose so much more than the others that they are served
    /// apart do not count.
    fn usual(&self) -> f64 {
        let mut rates: Vec<f64> = self.receivers.values().map(|loss| loss.rate(0.0)).collect();
        rates.sort_by(f64::total_cmp);
        while let Some(most) = rates.last().map(|most| most.min(MAX_LOSS)) {
            let others = rates.partition_point(|rate| *rate < most * ALIKE);
            if others == 0 || !is_cheaper_apart(rates.len() - others, most) {
                break;
            }
            rates.truncate(others);
        }
        let at = (rates.len() * 9).div_ceil(10).saturating_sub(1);
        rates.get(at).copied().unwrap_or(0.0).min(MAX_LOSS)
    }
}

/// Whether so many receivers, which lose a share `rate`, cost less over their own connections than with
/// symbols to the group.
fn is_cheaper_apart(receivers: usize, rate: f64) -> bool {
    receivers as f64 * APART_COST < 1.0 / (1.0 - rate)
}

/// The number of symbols to send to a receiver that loses a share `rate` of them, so that `want` arrive: on
/// average, or even if so many standard deviations more are lost.
fn needed(want: f64, rate: f64, deviations: f64) -> f64 {
    (want + deviations * (want * rate).sqrt()) / (1.0 - rate)
}

impl Loss {
    fn add(&mut self, sent: f64, lost: f64) {
        let keep = MEMORY / (MEMORY + sent);
        self.sent = (self.sent + sent) * keep;
        self.lost = (self.lost + lost) * keep;
    }

    fn rate(&self, usual: f64) -> f64 {
        (self.lost + PRIOR * usual) / (self.sent + PRIOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: u32 = 2_000;

    const NOTHING: ToGo = ToGo { symbols: 0, is_out: true };

    fn estimate(receivers: u32) -> Estimate {
        let mut estimate = Estimate::new(Share::Auto);
        (0..receivers).for_each(|receiver| estimate.join(receiver));
        estimate
    }

    /// The reports of all receivers after source block `number`, of which `ahead` repair symbols went ahead.
    fn report(estimate: &mut Estimate, number: u32, ahead: u32, losses: &[f64]) -> Vec<Wish> {
        let sent = SYMBOLS + ahead;
        let lacking = |loss: f64| SYMBOLS.saturating_sub((f64::from(sent) * (1.0 - loss)) as u32);
        let lacks = losses.iter().map(|loss| lacking(*loss)).enumerate().filter(|(_, lacking)| *lacking > 0);
        lacks
            .map(|(receiver, lacking)| {
                say(estimate, receiver as u32, 0, Lack { source_block: number, lacking, next: sent })
            })
            .collect()
    }

    fn say(estimate: &mut Estimate, receiver: u32, index: u32, lack: Lack) -> Wish {
        estimate.note(receiver, index, SYMBOLS, lack);
        estimate.lack(receiver, index, SYMBOLS, lack, NOTHING)
    }

    #[test]
    fn without_loss_nothing_is_sent_ahead_and_a_percentage_always_is() {
        let mut auto = estimate(3);
        assert_eq!((0..9).map(|_| auto.ahead(SYMBOLS, false)).sum::<u32>(), 0);
        let mut fixed = Estimate::new(Share::Percent(15));
        assert_eq!((fixed.ahead(SYMBOLS, false), fixed.ahead(7, true)), (300, 2));
    }

    #[test]
    fn symbols_take_the_place_of_blocks_where_they_are_fewer_by_enough() {
        let needed = Estimate::new(Share::Needed);
        let is_worth = |lost: &[u32]| needed.is_worth(SYMBOLS, lost.iter().copied());
        assert!(is_worth(&[100; 10]) && is_worth(&[100, 100]) && is_worth(&[400; 30]));
        assert!(!is_worth(&[100]) && !is_worth(&[100, 5, 3]), "one lacks nearly all of it");
        assert!(!is_worth(&[2, 2, 2]), "decoding is not worth a few blocks");
        assert!(!is_worth(&[1400, 1300]), "so many symbols would be lost as well");
        assert!(Estimate::new(Share::Auto).is_worth(SYMBOLS, [1].into_iter()), "it is asked for");
    }

    #[test]
    fn behind_the_last_source_block_there_is_enough_for_nearly_all() {
        let mut auto = estimate(20);
        for number in 0..4 {
            let ahead = auto.ahead(SYMBOLS, false);
            report(&mut auto, number, ahead, &[0.3; 20]);
        }
        let (meanwhile, last) = (auto.ahead(SYMBOLS, false), auto.ahead(SYMBOLS, true));
        assert!((80..130).contains(&(last - meanwhile)), "{meanwhile} and {last}: a deviation is 35");
    }

    #[test]
    fn the_share_follows_the_loss_up_at_once_and_down_slowly() {
        let (mut auto, losses) = (estimate(20), [0.3; 20]);
        for number in 0..4 {
            let ahead = auto.ahead(SYMBOLS, false);
            report(&mut auto, number, ahead, &losses);
        }
        let ahead = auto.ahead(SYMBOLS, false);
        assert!((830..=870).contains(&ahead), "{ahead} of 2000 blocks at 30 % loss, 857 are right");
        let after: Vec<u32> = (0..40).map(|_| auto.ahead(SYMBOLS, false)).collect();
        assert!(after[3] > ahead * 3 / 4 && after[39] < ahead / 3, "{after:?}");
    }

    #[test]
    fn what_is_lost_while_the_rate_is_found_is_not_expected_later() {
        let mut auto = estimate(3);
        auto.ahead(SYMBOLS, false);
        auto.rate_was_unknown(0, 0);
        let wishes = report(&mut auto, 0, 0, &[0.5; 3]);
        assert_eq!(wishes, [Wish::Group(SYMBOLS + SYMBOLS / 2); 3], "it is mended all the same");
        assert_eq!(auto.ahead(SYMBOLS, false), 0);
        report(&mut auto, 1, 0, &[0.1; 3]);
        assert!(auto.ahead(SYMBOLS, false) > 200);
    }

    #[test]
    fn one_round_gives_a_receiver_what_it_lacks() {
        let mut auto = estimate(20);
        auto.ahead(SYMBOLS, false);
        for wish in report(&mut auto, 0, 0, &[0.3; 20]) {
            let Wish::Group(goal) = wish else { panic!("{wish:?}") };
            let arrives = f64::from(goal - SYMBOLS) * 0.7;
            assert!((600.0..660.0).contains(&arrives), "{arrives} arrive of 600 that are lacking");
        }
    }

    #[test]
    fn while_the_object_is_going_out_a_receiver_gets_what_suffices_on_average() {
        let goal = |is_out| {
            let mut auto = estimate(1);
            auto.ahead(SYMBOLS, false);
            let lack = Lack { source_block: 0, lacking: 600, next: SYMBOLS };
            auto.note(0, 0, SYMBOLS, lack);
            match auto.lack(0, 0, SYMBOLS, lack, ToGo { symbols: 0, is_out }) {
                Wish::Group(goal) => goal - SYMBOLS,
                Wish::Apart(_) => panic!("it is alone"),
            }
        };
        let (meanwhile, at_the_end) = (goal(false), goal(true));
        assert!((855..=860).contains(&meanwhile), "{meanwhile} for 600 at 30 % loss");
        assert!((885..=900).contains(&at_the_end), "{at_the_end} for 600 at 30 % loss, and two deviations");
    }

    #[test]
    fn one_that_loses_far_more_than_the_others_is_served_apart() {
        let mut auto = estimate(20);
        let mut losses = [0.02; 20];
        losses[7] = 0.7;
        for number in 0..5 {
            let ahead = auto.ahead(SYMBOLS, false);
            let wishes = report(&mut auto, number, ahead, &losses);
            assert!(ahead < 60, "{ahead}: the others do not get what one needs");
            let apart: Vec<_> = wishes.iter().filter(|wish| matches!(wish, Wish::Apart(_))).collect();
            assert_eq!(apart.len(), 1, "{wishes:?}");
        }
        (0..20).filter(|other| *other != 7).for_each(|other| auto.leave(other));
        let lack = Lack { source_block: 5, lacking: SYMBOLS * 7 / 10, next: SYMBOLS };
        assert!(matches!(say(&mut auto, 7, 0, lack), Wish::Apart(_)), "it goes on when they are done");
        assert!(matches!(say(&mut auto, 7, 1, lack), Wish::Group(_)), "and is alone in the next object");
        let mut alone = estimate(1);
        alone.ahead(SYMBOLS, false);
        assert!(matches!(report(&mut alone, 0, 0, &[0.7])[0], Wish::Group(_)), "nobody else is in its way");
    }

    #[test]
    fn who_gets_little_from_the_group_is_served_apart_although_alone() {
        let mut auto = estimate(1);
        auto.ahead(SYMBOLS, false);
        let lack = |round: u32| Lack { source_block: 0, lacking: 900 - round, next: SYMBOLS + round * 2_000 };
        let wishes: Vec<Wish> = (0..9).map(|round| say(&mut auto, 0, 0, lack(round))).collect();
        assert!(matches!(wishes[0], Wish::Group(_)), "{wishes:?}");
        assert!(wishes.contains(&Wish::Apart(900 - 8)), "{wishes:?}");
    }

    #[test]
    fn who_gets_nothing_from_the_group_is_served_apart_at_once_and_several_when_the_group_has_tried() {
        let lack = |next| Lack { source_block: 0, lacking: SYMBOLS, next };
        let mut alone = estimate(3);
        assert_eq!(say(&mut alone, 0, 0, lack(SYMBOLS)), Wish::Apart(SYMBOLS));
        // The group has come back to it before the next object.
        let next = Lack { lacking: 100, ..lack(SYMBOLS) };
        assert!(matches!(say(&mut alone, 0, 1, next), Wish::Group(_)));
        let mut several = estimate(9);
        several.note(0, 0, SYMBOLS, lack(SYMBOLS));
        for receiver in [1, 0] {
            assert_eq!(
                say(&mut several, receiver, 0, lack(SYMBOLS)),
                Wish::Group(SYMBOLS + PROBE),
                "{receiver}"
            );
        }
        assert_eq!(say(&mut several, 0, 0, lack(SYMBOLS + PROBE)), Wish::Apart(SYMBOLS));
        // The other one is reached again: it gets what it lacks, as one that has hardly lost anything.
        let rest = Lack { lacking: SYMBOLS - PROBE, ..lack(SYMBOLS + PROBE) };
        let Wish::Group(goal) = say(&mut several, 1, 0, rest) else { panic!("it is reached") };
        assert!((2 * SYMBOLS..2 * SYMBOLS + 50).contains(&goal), "{goal}");
    }

    /// The path has been good for long, so the few symbols that are lost now hardly change what is known of it.
    #[test]
    fn who_gets_nothing_of_two_rounds_is_served_apart_however_few_symbols_they_had() {
        let mut auto = estimate(4);
        (0..3).for_each(|number| _ = report(&mut auto, number, 0, &[0.01; 4]));
        let dark = |next| Lack { source_block: 3, lacking: 30, next: SYMBOLS + next };
        for (next, is_apart) in [(0, false), (31, false), (31, false), (62, true), (93, true)] {
            for receiver in 0..4 {
                let wish = say(&mut auto, receiver, 0, dark(next));
                assert_eq!(wish == Wish::Apart(30), is_apart, "{next}: {wish:?}");
            }
        }
        let lack = |source_block, lacking| Lack { source_block, lacking, next: SYMBOLS };
        assert_eq!(say(&mut auto, 0, 0, lack(4, SYMBOLS)), Wish::Apart(SYMBOLS), "it is still dark");
        assert!(matches!(say(&mut auto, 0, 0, lack(5, 20)), Wish::Group(_)), "it has got much again");
        let some = Lack { lacking: 29, ..dark(62) };
        let mut lossy = estimate(2);
        say(&mut lossy, 0, 0, dark(0));
        say(&mut lossy, 0, 0, dark(31));
        assert!(matches!(say(&mut lossy, 0, 0, some), Wish::Group(_)), "one has come");
    }

    #[test]
    fn one_of_ten_may_need_a_round() {
        let mut auto = estimate(20);
        let mut losses = [0.02; 20];
        losses[7] = 0.4;
        for number in 0..5 {
            let ahead = auto.ahead(SYMBOLS, false);
            report(&mut auto, number, ahead, &losses);
        }
        assert!(auto.ahead(SYMBOLS, false) < 60);
    }

    #[test]
    fn nobody_can_ask_for_more_than_there_is() {
        let mut auto = estimate(1);
        auto.ahead(SYMBOLS, false);
        let lack = Lack { source_block: 0, lacking: u32::MAX, next: u32::MAX };
        for lack in [lack, Lack { source_block: 1, next: 0, ..lack }] {
            match say(&mut auto, 0, 0, lack) {
                Wish::Group(goal) => {
                    assert!(goal == u32::MAX || goal < 20_000, "the schedule bounds it: {goal}")
                }
                Wish::Apart(count) => assert!(count <= SYMBOLS + 64, "{count}"),
            }
        }
    }
}
