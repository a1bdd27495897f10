//! The figures of the paper interdomain-2013, to stand beside what treecast finds.
//!
//! The paper mixes years. The analysis for figure 6.4 is of October 2010 and counts 24,436 prefixes of providers. The
//! 450,000 prefixes that it compares them with are of 2012. Both are here with their dates.

use super::analysis::tables::Stubs;

/// Table 6.1: stubs on 2012-12-01.
pub(crate) const SINGLE_HOMED: Stubs = Stubs { pi: 13_613, pa: 1_938, both: 881 };
pub(crate) const MULTI_HOMED: Stubs = Stubs { pi: 14_695, pa: 2_853, both: 2_397 };

/// ASes on 2012-12-01 (6.2.2).
pub(crate) const ASES: u64 = 43_100;
pub(crate) const STUBS: u64 = 36_377;
pub const PROVIDERS: u64 = 6_723;

/// Table 5.2: month, additions and deletions of providers over all stubs, of which there were about 33,000.
pub(crate) const CHANGES: [(&str, u64, u64); 6] = [
    ("05/2011", 1396, 1049),
    ("06/2011", 1408, 1024),
    ("07/2011", 1454, 1112),
    ("08/2011", 1435, 1102),
    ("09/2011", 1317, 943),
    ("10/2011", 1359, 1092),
];
/// The number of stubs behind table 5.2, as its caption rounds it.
pub(crate) const CHANGES_STUBS: u64 = 33_000;

/// Figure 5.4: the year, the changes of provider a month by stubs with a /24, and the number of all stubs (5.6.2).
pub(crate) const CHANGES_OF_24: [(&str, u64, u64); 2] = [("2002", 195, 11_250), ("2011", 543, 29_466)];

/// Figure 6.4, plot 1: prefixes of 2010-10-05 that providers hold and announce, which MAST would leave in the global
/// table (6.4).
pub(crate) const GLOBAL_TABLE_MAST_2010: u64 = 24_436;
/// Providers on 2010-10-05 (6.4).
pub(crate) const PROVIDERS_2010: u64 = 5_623;
/// The greatest number of stubs of one provider on 2010-10-05, and how many of these were single-homed (6.4).
pub(crate) const MOST_STUBS_2010: (u64, u64) = (2_077, 405);
/// The greatest number of stubs of one provider in December 2012 (6.3.3).
pub(crate) const MOST_STUBS_2012: u64 = 2_589;
/// The size of the global table in 2012, which the paper compares the 24,436 prefixes of 2010 with.
pub(crate) const GLOBAL_TABLE_2012: u64 = 450_000;
/// The share of stubs with exactly two providers among those with several: "more than 76 %" (6.4).
pub(crate) const SHARE_OF_TWO: f64 = 0.76;

/// Figure 5.3, from the text: the time in years, and stubs or providers. The figure itself has no numbers.
pub(crate) const STUBS_BY_YEAR: [(f64, u64); 3] = [(2002.5, 11_250), (2011.5, 29_466), (2012.92, 36_377)];
pub(crate) const PROVIDERS_BY_YEAR: [(f64, u64); 3] = [(2010.76, 5_623), (2011.5, 6_185), (2012.92, 6_723)];
