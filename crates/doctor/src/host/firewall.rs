//! The effect of the rules of nftables on the packets of multicast, by `nft -j list ruleset` (libnftables-json(5)).
//!
//! Only some sample packets are judged. A rule with a condition that is not understood, such as a match of iptables, is passed
//! over, and what later rules drop is then no longer certain. Delivery tests between hosts see what such a rule does.

use std::{
    cell::Cell,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use serde_json::Value;

use super::facts::Verdict;

/// The depth to which chains may jump. The kernel allows 16.
const MAX_DEPTH: usize = 16;

/// A packet whose way through the rules is computed.
struct Sample {
    text: &'static str,
    hook: &'static str,
    protocol: &'static str,
    source: IpAddr,
    destination: IpAddr,
    icmp_type: Option<(&'static str, u64)>,
    port: u64,
}

/// The doctor's port, to which the sample packets go.
const PORT: u64 = 4245;
/// A port out of 20000 to 29999, from which sessions draw theirs. Rules that let the doctor pass may stop sessions.
const SESSION_PORT: u64 = 24_246;

fn samples() -> Vec<Sample> {
    let (v4, v6) = (
        IpAddr::from(Ipv4Addr::new(192, 0, 2, 7)),
        IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7)),
    );
    let local = IpAddr::from(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7));
    let group4 = IpAddr::from(Ipv4Addr::new(239, 255, 77, 84));
    let group6 = IpAddr::from(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x7463, 0x6472));
    let all4 = IpAddr::from(Ipv4Addr::new(224, 0, 0, 1));
    let all6 = IpAddr::from(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
    let reports6 = IpAddr::from(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16));
    let sample = |text, hook, protocol, source, destination| Sample {
        text,
        hook,
        protocol,
        source,
        destination,
        icmp_type: None,
        port: PORT,
    };
    let mld = |text, hook, destination, icmp_type| Sample {
        icmp_type: Some(icmp_type),
        ..sample(text, hook, "icmpv6", local, destination)
    };
    vec![
        sample("incoming UDP to IPv4 groups", "input", "udp", v4, group4),
        sample("incoming UDP to IPv6 groups", "input", "udp", v6, group6),
        sample("outgoing UDP to IPv4 groups", "output", "udp", v4, group4),
        sample("outgoing UDP to IPv6 groups", "output", "udp", v6, group6),
        sample("incoming IGMP queries", "input", "igmp", v4, all4),
        sample("outgoing IGMP reports", "output", "igmp", v4, Ipv4Addr::new(224, 0, 0, 22).into()),
        mld("incoming MLD queries", "input", all6, ("mld-listener-query", 130)),
        mld("outgoing MLD reports", "output", reports6, ("mld2-listener-report", 143)),
    ]
}

/// The sample packets that these rules drop at an interface. `listing` has the rules as a person reads them, with their handles
/// (`nft -a list ruleset`). `None` if the text is no ruleset.
pub(super) fn dropped(ruleset: &str, listing: &str, interface: &str) -> Option<Vec<Verdict>> {
    let ruleset: Value = serde_json::from_str(ruleset).ok()?;
    let objects = ruleset["nftables"].as_array()?;
    let rules = Rules { objects, listing, interface, is_unclear: Cell::new(false) };
    let fate = |sample: &Sample| rules.fate(sample).or_else(|| rules.fate_of_session(sample));
    Some(samples().iter().filter_map(fate).collect())
}

/// The text of a rule in a listing, without its handle and its counters' values.
fn rule_text<'a>(listing: &'a str, rule: &Value) -> Option<&'a str> {
    let text = |key: &str| rule[key].as_str().unwrap_or_default();
    let table = format!("table {} {} {{", text("family"), text("table"));
    let chain = format!("chain {} {{", text("chain"));
    let handle = format!(" # handle {}", rule["handle"]);
    // Tables begin at the margin, and their chains one step to the right.
    let in_table = listing.lines().skip_while(|line| !line.starts_with(&table)).skip(1);
    let in_table = in_table.take_while(|line| !line.starts_with('}'));
    let in_chain = in_table.skip_while(|line| !line.trim_start().starts_with(&chain)).skip(1);
    let mut in_chain = in_chain.take_while(|line| line.trim() != "}");
    in_chain.find_map(|line| line.trim().strip_suffix(&handle))
}

struct Rules<'a> {
    objects: &'a [Value],
    listing: &'a str,
    interface: &'a str,
    /// Whether a rule that might have decided was passed over on this packet's way.
    is_unclear: Cell<bool>,
}

enum Fate {
    /// The next rule decides.
    GoOn,
    /// The rest of the chain is left out.
    Return,
    Accept,
    Drop(String),
}

impl Rules<'_> {
    /// The rule that drops the packet. `None` if it passes. Every base chain at its hook has a say.
    fn fate(&self, sample: &Sample) -> Option<Verdict> {
        let chains = self.objects.iter().filter_map(|object| object.get("chain"));
        let hooked = chains.filter(|chain| chain["hook"] == sample.hook && sample.is_of(&chain["family"]));
        for chain in hooked {
            self.is_unclear.set(false);
            let fate = self.walk(chain, sample, 0);
            let policy = || (chain["policy"] == "drop").then(|| format!("the policy of {}", place(chain)));
            let rule = match fate {
                Fate::Drop(rule) => Some(rule),
                Fate::GoOn | Fate::Return => policy(),
                Fate::Accept => None,
            };
            if let Some(rule) = rule {
                let is_certain = !self.is_unclear.get();
                return Some(Verdict { packet: sample.text.to_owned(), rule, is_certain });
            }
        }
        None
    }

    /// The rule that drops a packet of a session which passes at the doctor's port.
    fn fate_of_session(&self, sample: &Sample) -> Option<Verdict> {
        let verdict =
            (sample.protocol == "udp").then(|| self.fate(&Sample { port: SESSION_PORT, ..*sample }))??;
        let packet =
            format!("{} at the ports of sessions (20000 to 29999), not at the doctor's,", verdict.packet);
        Some(Verdict { packet, ..verdict })
    }

    /// A rule as a person finds it again: its text and its place.
    fn named(&self, rule: &Value) -> String {
        match rule_text(self.listing, rule) {
            Some(text) => format!("the rule `{text}` of {}", place(rule)),
            None => format!("the rule with handle {} of {}", rule["handle"], place(rule)),
        }
    }

    fn walk(&self, chain: &Value, sample: &Sample, depth: usize) -> Fate {
        let rules = self.objects.iter().filter_map(|object| object.get("rule"));
        let of_chain = |rule: &&Value| {
            ["family", "table"].iter().all(|key| rule[key] == chain[key]) && rule["chain"] == chain["name"]
        };
        for rule in rules.filter(of_chain) {
            match self.apply(rule, sample, depth) {
                Fate::GoOn => {}
                Fate::Return => return Fate::GoOn,
                decided => return decided,
            }
        }
        Fate::GoOn
    }

    /// Goes through the statements of one rule until a condition does not hold.
    fn apply(&self, rule: &Value, sample: &Sample, depth: usize) -> Fate {
        for statement in rule["expr"].as_array().into_iter().flatten() {
            let Some((name, value)) = statement.as_object().and_then(|object| object.iter().next()) else {
                continue;
            };
            match name.as_str() {
                "match" => match self.holds(rule, value, sample) {
                    Some(true) => {}
                    Some(false) => return Fate::GoOn,
                    None => return self.pass_over(rule),
                },
                "accept" => return Fate::Accept,
                "return" => return Fate::Return,
                "drop" | "reject" => return Fate::Drop(self.named(rule)),
                "jump" | "goto" if depth < MAX_DEPTH => {
                    let mut target = rule.clone();
                    target["name"] = value["target"].clone();
                    match self.walk(&target, sample, depth + 1) {
                        Fate::GoOn | Fate::Return if name == "jump" => {}
                        Fate::GoOn | Fate::Return => return Fate::Return,
                        decided => return decided,
                    }
                }
                // The doctor's few packets are within every limit.
                "limit" if value["inv"] == true => return Fate::GoOn,
                "limit" | "counter" | "log" | "mangle" | "notrack" => {}
                _ => return self.pass_over(rule),
            }
        }
        Fate::GoOn
    }

    /// Leaves a rule out that is not understood. One that may drop drops nothing here.
    fn pass_over(&self, rule: &Value) -> Fate {
        let statements = rule["expr"].as_array();
        let drops = |statement: &Value| statement.get("drop").is_some() || statement.get("reject").is_some();
        if !statements.is_some_and(|statements| statements.iter().any(drops)) {
            self.is_unclear.set(true);
        }
        Fate::GoOn
    }

    /// Whether a condition holds. `None`: it is not understood.
    fn holds(&self, rule: &Value, condition: &Value, sample: &Sample) -> Option<bool> {
        let actual = match sample.field(&condition["left"], self.interface) {
            Field::Is(actual) => actual,
            Field::Lacks => return Some(false),
            Field::Unknown => return None,
        };
        let is_in = self.contains(rule, &condition["right"], &actual);
        match condition["op"].as_str() {
            Some("==" | "in") => Some(is_in),
            Some("!=") => Some(!is_in),
            _ => None,
        }
    }

    fn contains(&self, rule: &Value, wanted: &Value, actual: &Actual) -> bool {
        let any = |list: &Value| {
            list.as_array().is_some_and(|list| list.iter().any(|one| self.contains(rule, one, actual)))
        };
        if let Some(name) = wanted.as_str().and_then(|text| text.strip_prefix('@')) {
            let sets = self.objects.iter().filter_map(|object| object.get("set"));
            let mut named = sets.filter(|set| {
                set["name"] == name && set["table"] == rule["table"] && set["family"] == rule["family"]
            });
            return named.any(|set| any(&set["elem"]));
        }
        match wanted {
            Value::Array(_) => any(wanted),
            Value::Object(object) if object.contains_key("set") => any(&object["set"]),
            Value::Object(object) if object.contains_key("elem") => {
                self.contains(rule, &object["elem"]["val"], actual)
            }
            _ => actual.is(wanted),
        }
    }
}

/// The field that a condition looks at.
enum Field {
    Is(Actual),
    /// Packets of this kind lack it, so the condition does not hold.
    Lacks,
    Unknown,
}

/// The value of a field in a sample packet.
enum Actual {
    /// The name of an interface. A `*` at the end of a wanted name stands for anything.
    Name(String),
    Address(IpAddr),
    Number(u64),
    /// A word of nft, and its number where it may print that.
    Word(&'static str, Option<u64>),
}

impl Actual {
    fn is(&self, wanted: &Value) -> bool {
        match self {
            Self::Name(name) => wanted.as_str().is_some_and(|wanted| match wanted.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == wanted,
            }),
            Self::Address(address) => match wanted.get("prefix") {
                Some(prefix) => is_within(*address, prefix),
                None => wanted.as_str().and_then(|text| text.parse().ok()) == Some(*address),
            },
            Self::Number(number) => match wanted.get("range").and_then(Value::as_array).map(Vec::as_slice) {
                Some([from, to]) => {
                    from.as_u64().zip(to.as_u64()).is_some_and(|(from, to)| (from..=to).contains(number))
                }
                _ => wanted.as_u64() == Some(*number),
            },
            Self::Word(word, number) => wanted == *word || (number.is_some() && wanted.as_u64() == *number),
        }
    }
}

fn is_within(address: IpAddr, prefix: &Value) -> bool {
    let base = prefix["addr"].as_str().and_then(|text| text.parse().ok());
    let unlike = match (address, base) {
        (IpAddr::V4(address), Some(IpAddr::V4(base))) => (address.to_bits() ^ base.to_bits()).leading_zeros(),
        (IpAddr::V6(address), Some(IpAddr::V6(base))) => (address.to_bits() ^ base.to_bits()).leading_zeros(),
        _ => return false,
    };
    prefix["len"].as_u64().is_some_and(|len| u64::from(unlike) >= len)
}

impl Sample {
    /// Whether chains of this family see the packet.
    fn is_of(&self, family: &Value) -> bool {
        let own = if self.destination.is_ipv4() { "ip" } else { "ip6" };
        family == "inet" || family == own
    }

    fn field(&self, left: &Value, interface: &str) -> Field {
        let is_ipv4 = self.destination.is_ipv4();
        let is_in = self.hook == "input";
        let either =
            |is_first, first, second| Field::Is(Actual::Word(if is_first { first } else { second }, None));
        if let Some(key) = left["meta"]["key"].as_str() {
            return match key {
                "l4proto" => Field::Is(self.protocol()),
                "pkttype" if is_in => Field::Is(Actual::Word("multicast", None)),
                "nfproto" => either(is_ipv4, "ipv4", "ipv6"),
                "protocol" => either(is_ipv4, "ip", "ip6"),
                "iif" | "iifname" if is_in => Field::Is(Actual::Name(interface.to_owned())),
                "oif" | "oifname" if !is_in => Field::Is(Actual::Name(interface.to_owned())),
                "iif" | "iifname" | "oif" | "oifname" => Field::Lacks,
                _ => Field::Unknown,
            };
        }
        if left["ct"]["key"] == "state" {
            return Field::Is(Actual::Word("new", None));
        }
        let payload = (left["payload"]["protocol"].as_str(), left["payload"]["field"].as_str());
        let (Some(header), Some(field)) = payload else { return Field::Unknown };
        let has_header = match header {
            "ip" => is_ipv4,
            "ip6" => !is_ipv4,
            "th" => self.protocol == "udp",
            "ether" | "vlan" | "arp" => return Field::Unknown,
            other => other == self.protocol,
        };
        match field {
            _ if !has_header => Field::Lacks,
            "daddr" => Field::Is(Actual::Address(self.destination)),
            "saddr" => Field::Is(Actual::Address(self.source)),
            "protocol" | "nexthdr" => Field::Is(self.protocol()),
            "dport" | "sport" => Field::Is(Actual::Number(self.port)),
            "type" => self
                .icmp_type
                .map_or(Field::Unknown, |(word, number)| Field::Is(Actual::Word(word, Some(number)))),
            _ => Field::Unknown,
        }
    }

    fn protocol(&self) -> Actual {
        let number = match self.protocol {
            "udp" => 17,
            "igmp" => 2,
            _ => 58,
        };
        let word = if self.protocol == "icmpv6" { "ipv6-icmp" } else { self.protocol };
        Actual::Word(word, Some(number))
    }
}

fn place(object: &Value) -> String {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let chain = if object["chain"].is_string() { text("chain") } else { text("name") };
    format!("table {} {}, chain {chain}", text("family"), text("table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that `nft -j` prints about a chain `input` with this policy and these rules.
    fn ruleset(policy: &str, rules: &[&str]) -> String {
        let chain = |name: &str, more: &str| {
            format!(r#"{{"chain":{{"family":"inet","table":"f","name":"{name}"{more}}}}}"#)
        };
        let base = format!(r#","type":"filter","hook":"input","prio":0,"policy":"{policy}""#);
        let set =
            r#"{"set":{"family":"inet","table":"f","name":"ports","elem":[22,{"range":[4000,30000]}]}}"#;
        let rule = |(handle, (chain, expr)): (usize, (&str, &str))| {
            format!(
                r#"{{"rule":{{"family":"inet","table":"f","chain":"{chain}","handle":{handle},"expr":[{expr}]}}}}"#
            )
        };
        let rules = rules.iter().map(|rule| rule.split_once('|').unwrap_or(("input", rule)));
        let objects = [chain("input", &base), chain("other", ""), set.to_owned()].into_iter();
        format!(
            r#"{{"nftables":[{}]}}"#,
            objects.chain(rules.enumerate().map(rule)).collect::<Vec<_>>().join(",")
        )
    }

    fn packets(policy: &str, rules: &[&str]) -> Vec<String> {
        dropped(&ruleset(policy, rules), "", "eth0")
            .unwrap()
            .into_iter()
            .filter(|verdict| verdict.is_certain)
            .map(|verdict| verdict.packet)
            .collect()
    }

    const GROUPS: &str = r#"{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"daddr"}},"right":{"prefix":{"addr":"224.0.0.0","len":4}}}},{"drop":null}"#;
    const PORTS: &str = r#"{"match":{"op":"==","left":{"payload":{"protocol":"udp","field":"dport"}},"right":"@ports"}},{"accept":null}"#;

    #[test]
    fn rules_are_followed_in_their_order() {
        assert_eq!(packets("accept", &[]), [""; 0]);
        assert_eq!(packets("accept", &[GROUPS]), ["incoming UDP to IPv4 groups", "incoming IGMP queries"]);
        assert_eq!(packets("accept", &[PORTS, GROUPS]), ["incoming IGMP queries"]);
        assert_eq!(packets("drop", &[PORTS]), ["incoming IGMP queries", "incoming MLD queries"]);
    }

    #[test]
    fn a_jump_comes_back_and_what_is_not_understood_does_not_hold() {
        let jump = r#"{"jump":{"target":"other"}}"#;
        let unknown = r#"other|{"match":{"op":"==","left":{"fib":{}},"right":1}},{"drop":null}"#;
        let igmp =
            r#"other|{"match":{"op":"==","left":{"meta":{"key":"l4proto"}},"right":"igmp"}},{"drop":null}"#;
        assert_eq!(packets("accept", &[jump, unknown]), [""; 0]);
        assert_eq!(packets("accept", &[jump, igmp]), ["incoming IGMP queries"]);
        let endless = r#"other|{"jump":{"target":"other"}}"#;
        assert_eq!(packets("accept", &[jump, endless]), [""; 0]);
    }

    #[test]
    fn a_verdict_names_its_rule() {
        let rules = ruleset("accept", &[GROUPS]);
        let rule = |listing: &str| dropped(&rules, listing, "eth0").unwrap()[0].rule.clone();
        assert_eq!(rule(""), "the rule with handle 0 of table inet f, chain input");
        let listing = "table ip f { # handle 1\n\tchain input { # handle 1\n\t\tdrop # handle 0\n\t}\n}\n\
             table inet f { # handle 2\n\tset ports {\n\t\ttype inet_service\n\t}\n\n\tchain other { # handle 2\n\t\taccept # handle 0\n\t}\n\n\
             \tchain input { # handle 1\n\t\ttype filter hook input priority filter; policy accept;\n\
             \t\tip daddr 224.0.0.0/4 drop # handle 0\n\t}\n}\n";
        assert_eq!(rule(listing), "the rule `ip daddr 224.0.0.0/4 drop` of table inet f, chain input");
        assert_eq!(dropped("no JSON", "", "eth0"), None);
    }

    #[test]
    fn rules_that_let_only_the_doctor_pass_are_named() {
        let doctor = r#"{"match":{"op":"==","left":{"payload":{"protocol":"udp","field":"dport"}},"right":4245}},{"accept":null}"#;
        let told = packets("drop", &[doctor]);
        let at_ports = told.iter().filter(|packet| packet.contains("at the ports of sessions")).count();
        assert_eq!((at_ports, told.len()), (2, 4), "{told:?}");
    }

    #[test]
    fn a_return_leaves_its_chain_and_a_limit_that_is_kept_drops_nothing() {
        let back = GROUPS.replace("drop", "return");
        let all =
            r#"{"match":{"op":"==","left":{"meta":{"key":"pkttype"}},"right":"multicast"}},{"drop":null}"#;
        let of_ipv6 = ["incoming UDP to IPv6 groups", "incoming MLD queries"];
        assert_eq!(packets("accept", &[&back, all]), of_ipv6);
        let over = r#"{"limit":{"rate":1000,"per":"second","inv":true}},{"drop":null}"#;
        assert_eq!(packets("accept", &[over]), [""; 0]);
    }

    #[test]
    fn rules_about_interfaces_are_judged_by_the_real_one() {
        let other = |op: &str, name: &str| {
            format!(
                r#"{{"match":{{"op":"{op}","left":{{"meta":{{"key":"iifname"}}}},"right":"{name}"}}}},{{"drop":null}}"#
            )
        };
        assert_eq!(
            packets("accept", &[&other("!=", "eth0"), &other("==", "lo"), &other("==", "wlan*")]),
            [""; 0]
        );
        assert_eq!(packets("accept", &[&other("==", "eth*")]).len(), 4);
        let out = other("!=", "eth0").replace("iifname", "oifname");
        assert_eq!(packets("accept", &[&out]), [""; 0], "what comes in leaves by no interface");
    }

    /// The rules are as `nft` prints the matches of iptables-nft that ufw makes.
    #[test]
    fn behind_a_rule_that_is_not_understood_nothing_is_certain() {
        let accepts = r#"{"xt":{"type":"match","name":"conntrack"}},{"counter":{"packets":0,"bytes":0}},{"accept":null}"#;
        let drops = r#"{"xt":{"type":"match","name":"conntrack"}},{"drop":null}"#;
        assert_eq!(packets("accept", &[drops]), [""; 0]);
        assert_eq!(packets("drop", &[accepts]), [""; 0]);
        let verdicts = dropped(&ruleset("drop", &[accepts]), "", "eth0").unwrap();
        assert!(verdicts.len() == 4 && verdicts.iter().all(|verdict| !verdict.is_certain));
        assert_eq!(packets("drop", &[drops]).len(), 4, "only the policy decides");
    }
}
