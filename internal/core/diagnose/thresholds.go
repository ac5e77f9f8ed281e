package diagnose

import "time"

// thresholds are the numbers that rules compare with, dimensionless where possible: shares of a
// time or a count, and ratios. Only dimensionless numbers carry over to networks that they were
// not tuned for (diagnosis.md section 4.0, rule 9).
//
// (p) marks a proposal without a source; the others name theirs.
const (
	// Shares of the ceiling.
	fullPath   = 0.97 // (p) diagnosis.md 1, step 4: nothing to tune
	nearlyFull = 0.90 // (p) diagnosis.md 1, step 4: only harmless changes are worth trying
	// refutes is the ratio to the measured rate below which a bound is refuted: medians of
	// windows and round trips are not exact.
	refutes = 0.8 // (p) diagnosis.md 4.0, rule 2
	// halfTheGap is the share of the gap to the ceiling that lost time has to explain if it is
	// below the shares of time further down.
	halfTheGap = 0.5 // (p)
	// worthNaming is the least share of the gap that an additional limit has to explain: that
	// from which the rules of windows and programs speak at all (limitedShare, idleShare).
	worthNaming = 0.20 // (p)

	// Shares of time.
	limitedShare  = 0.20 // (p) of busy time: rules B07 and B08
	idleShare     = 0.20 // (p) of the window without data to send: rule B21
	mending       = 0.50 // (p) of the round trips in which a lost segment was retransmitted, without SACK
	busyThread    = 0.90 // (p) of the window that a thread ran or waited to run: it never slept
	idleThread    = 0.70 // (p) of the window: a thread that runs for less is ruled out as the limit
	waitingThread = 0.20 // (p) of the window that a thread waited for a processor
	starvedThread = 0.50 // (p) of the window, if that is sufficient evidence by itself
	throttled     = 0.10 // (p) of the window that a quota stopped the process
	fullCore      = 0.95 // diagnosis.md B16: one core is full
	otherCores    = 0.60 // diagnosis.md B16: while the others are not
	stealing      = 0.05 // diagnosis.md B23: of the processors' time that the hypervisor gave to other guests

	// Ratios of rates and windows.
	nearBound    = 1.10 // diagnosis.md B07: a window over the round trip within this factor explains the rate
	chosenWindow = 1.5  // (p) the same for a window that the test itself set, if that is a small part of the path
	ampleWindow  = 3.0  // (p) a window that allows this much more than the measured rate does not limit
	lossFactor   = 2.0  // diagnosis.md B10: the rate lies within this factor of the loss bound
	touched      = 0.95 // (p) of the ceiling: the path was full for a moment
	rising       = 1.25 // (p) the last third of a run over its first: it was still getting faster
	tenTrips     = 10.0 // diagnosis.md B14: bandwidth-delay products that a run should last
	slowStart    = 1.5  // (p) a test's length over what slow start takes to fill the path: rule B14
	coldStart    = 0.80 // diagnosis.md B15: later runs over the first
	nearBus      = 0.85 // diagnosis.md B18: of what a bus carries
	nearHost     = 0.85 // (p) of a host's rate over loopback
	sharedSum    = 1.15 // (p) several simultaneous connections over one alone: they share one limit
	ofTurns      = 1.20 // (p) diagnosis-2.md 3: shares of the time of two directions that may take turns
	leastTurns   = 0.85 // (p) of those shares if only the link's rate is known for each direction alone
	mostTurns    = 1.05 // (p)
	ackFull      = 0.85 // (p) diagnosis-2.md R01: acknowledgements over the capacity of the reverse direction
	overFull     = 1.15 // (p) impossible above this, so its capacity is a different one
	fewPerAck    = 1.80 // (p) diagnosis-2.md R01: segments per acknowledgement; below it the receiver sends more of them than usual
	earlyExit    = 0.50 // (p) diagnosis-2.md B14b: window at the end of slow start over what the path holds
	diskShare    = 0.90 // diagnosis.md 2.5: a file copy over the network alone
	oneMember    = 0.80 // (p) of one member of a bond
	smallPacket  = 0.50 // (p) of the payload that a packet of 1500 bytes carries: rule B29

	// Queues.
	standing       = 1.25 // (p) round trip under load over the least one: packets wait somewhere
	stands         = 1.50 // (p) the least round trip of all samples over the least one: packets wait all the time
	queuedSegments = 32.0 // (p) full packets under way, from which they are a queue
	fewPackets     = 2.0  // (p) waiting at the measured rate, from which a longer round trip is a queue
	sameQueue      = 0.40 // (p) the wait of probes over that of the load's packets: both stand in one queue
	steady         = 0.05 // (p) standard deviation over mean of the rate: something clocks it
	bloatTrips     = 1.5  // (p) B30: delay added by the load, in idle round trips; a sender needs a queue of one
	bloatPackets   = 32.0 // (p) B30: in full packets at the measured rate, so that a slow link is not taken for one

	bbrTries = 1.25 // of its rate, which bbr probes at times: bbr_pacing_gain, net/ipv4/tcp_bbr.c
	bbrWaits = 1.10 // (p) round trip over bbr's least one: it keeps the queue shorter than others
	bbrSmall = 52.0 // segments on a path at which version 3 tolerates no loss: 52 * 5 >> 8 is 1 (bbr_is_inflight_too_high, google/bbr v3)

	// Radios.
	airFull    = 0.50 // diagnosis-2.md 5: payload over the rate in the air, of a radio that is full
	airAgain   = 0.15 // (p) diagnosis-2.md 5: attempts that are repetitions
	airFailed  = 0.01 // diagnosis-2.md 5: frames given up
	airOthers  = 0.40 // (p) diagnosis-2.md 5: of the time, used by other stations
	airBusy    = 0.70 // diagnosis-2.md 5: of the time, used by any station
	airBusiest = 0.80 // diagnosis-2.md 5: the same without other evidence that the radio limits
	weakSignal = -67  // dBm; diagnosis-2.md 5: below it a radio slows down
	napTrips   = 3.0  // (p) idle round trip over the least one: the radio sleeps

	// Shares of packets.
	policedShare  = 0.02 // (p) lost at a steady rate without a standing queue: a policer cuts the rate
	brokenFrames  = 1e-6 // (p) diagnosis.md B04: of frames with a wrong checksum
	ringWaits     = 10   // (p) times as many packets that found a ring full as were retransmitted
	hostDrops     = 0.30 // (p) of what was lost, dropped by a host itself
	heldBack      = 0.02 // (p) times that a queueing discipline held packets back, over segments: 45 segments may be one packet to it (64 KiB)
	shortBurst    = 0.25 // (p) of what the path holds, lost at the end of slow start: a queue of one round trip loses half or more
	reorderEvents = 0.50 // (p) signs of reordering over losses that made the sender slow down
	burstShare    = 0.20 // (p) of TCP's losses, the share that paced datagrams see if only bursts are dropped
	burstLosses   = 2.0  // (p) segments lost at a time, over the number expected of independent losses
	replayed      = 0.15 // (p) diagnosis-2.md 8: how far a replay of the window may miss the rate
	bbrDrops      = 0.01 // (p) retransmitted by bbr: more than a queue drops of its probes
	bbrBears      = 0.12 // (p) of losses that bbr hardly tolerates: from 0.20 on no probe gains anything
	bbrThreshold  = 0.02 // BBRLossThresh of draft-ietf-ccwg-bbr: version 3 takes more loss for a full path
	lossMatters   = 1e-6 // floor of the loss rate in NDT's heuristics
	pauseQuanta   = 65535 * 512
	nearlyAll     = 0.90 // (p) of the packets through one queue, or with a mark
	knee          = 0.95 // (p) received over sent, below the knee of a ladder
)

// fewest are the smallest counts that are evidence (p).
const (
	manySigns  = 10 // datagrams expected to be lost, of which none was: not by chance (e^-10)
	fewSigns   = 3  // of reordering, of broken frames
	fewBursts  = 4  // segments lost in bursts
	fewLosses  = 5  // with so few their share is unknown: diagnosis-2.md 8
	fewSamples = 3  // of the rate
	smallFrame = 512

	shortQueueWait = 10 * time.Millisecond // (p) in a queue that a window fills
	hostWait       = 50 * time.Millisecond // (p) more than a host with busy processors delays packets

	nap       = 5 * time.Millisecond // (p) of added idle round trip: the radio sleeps
	pageFrame = 4074                 // MTU whose frames fit a page of 4 KiB: diagnosis.md B20
)
