package session

import (
	"time"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// This file converts what a kernel and an engine say of one protocol, TCP or UDP.

func encodeTCP(t *model.TCPSummary) *sessionpb.TCPSummary {
	if t == nil {
		return nil
	}
	return &sessionpb.TCPSummary{
		Congestion: encodeText(t.Congestion), Mss: encodeNumber(t.MSS), PathMtu: encodeNumber(t.PathMTU),
		Timestamps: encodeTruth(t.Timestamps), Sack: encodeTruth(t.SACK), Ecn: encodeTruth(t.ECN),
		SendScale: encodeNumber(t.SendScale), RecvScale: encodeNumber(t.RecvScale),
		Retransmits: encodeNumber(t.Retransmits), SegmentsOut: encodeNumber(t.SegmentsOut),
		Busy: encodeNumber(t.Busy), RwndLimited: encodeNumber(t.RwndLimited), SndbufLimited: encodeNumber(t.SndbufLimited),
		Rtt: encodeNumber(t.RTT), RttMin: encodeNumber(t.RTTMin), Cwnd: encodeNumber(t.Cwnd),
		PeerWindow: encodeNumber(t.PeerWindow), SendBuffer: encodeNumber(t.SendBuffer),
	}
}

func decodeTCP(c *check, p *sessionpb.TCPSummary) *model.TCPSummary {
	if p == nil {
		return nil
	}
	return &model.TCPSummary{
		Congestion:    decodeText(c, "congestion", p.GetCongestion()),
		MSS:           decodeNumber[int](c, "mss", p.GetMss()),
		PathMTU:       decodeNumber[int](c, "path mtu", p.GetPathMtu()),
		Timestamps:    decodeTruth(c, "timestamps", p.GetTimestamps()),
		SACK:          decodeTruth(c, "sack", p.GetSack()),
		ECN:           decodeTruth(c, "ecn", p.GetEcn()),
		SendScale:     decodeNumber[int](c, "send scale", p.GetSendScale()),
		RecvScale:     decodeNumber[int](c, "receive scale", p.GetRecvScale()),
		Retransmits:   decodeNumber[int64](c, "retransmits", p.GetRetransmits()),
		SegmentsOut:   decodeNumber[int64](c, "segments out", p.GetSegmentsOut()),
		Busy:          decodeNumber[time.Duration](c, "busy time", p.GetBusy()),
		RwndLimited:   decodeNumber[time.Duration](c, "receive window limited time", p.GetRwndLimited()),
		SndbufLimited: decodeNumber[time.Duration](c, "send buffer limited time", p.GetSndbufLimited()),
		RTT:           decodeNumber[time.Duration](c, "rtt", p.GetRtt()),
		RTTMin:        decodeNumber[time.Duration](c, "least rtt", p.GetRttMin()),
		Cwnd:          decodeNumber[units.Bytes](c, "congestion window", p.GetCwnd()),
		PeerWindow:    decodeNumber[units.Bytes](c, "peer window", p.GetPeerWindow()),
		SendBuffer:    decodeNumber[units.Bytes](c, "send buffer", p.GetSendBuffer()),
	}
}

func encodeUDP(u *model.UDPSummary) *sessionpb.UDPSummary {
	if u == nil {
		return nil
	}
	return &sessionpb.UDPSummary{
		Received: u.Received, Lost: u.Lost, Duplicates: u.Duplicates, Reordered: u.Reordered, MaxExtent: u.MaxExtent,
		Jitter: encodeNumber(u.Jitter), Variation: encodeHistogram(u.Variation), Coalesced: u.Coalesced,
		Sent: u.Sent, Refused: u.Refused, Pacing: clean(u.Pacing, MaxName), Segmented: u.Segmented, Gaps: encodeHistogram(u.Gaps),
	}
}

func decodeUDP(c *check, p *sessionpb.UDPSummary) *model.UDPSummary {
	if p == nil {
		return nil
	}
	n := func(n int64) int64 { return c.atMost("count of datagrams", n, maxBytes) }
	return &model.UDPSummary{
		Received: n(p.GetReceived()), Lost: n(p.GetLost()), Duplicates: n(p.GetDuplicates()),
		Reordered: n(p.GetReordered()), MaxExtent: n(p.GetMaxExtent()),
		Jitter: decodeNumber[time.Duration](c, "jitter", p.GetJitter()), Variation: decodeHistogram(c, "delay variation", p.GetVariation()),
		Coalesced: p.GetCoalesced(), Sent: n(p.GetSent()), Refused: n(p.GetRefused()),
		Pacing: c.text("pacing", p.GetPacing(), MaxName), Segmented: p.GetSegmented(), Gaps: decodeHistogram(c, "gaps", p.GetGaps()),
	}
}
