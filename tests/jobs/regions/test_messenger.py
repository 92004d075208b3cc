"""Datagrams to PEs: the whole board of each, and no harm from one that cannot be reached."""

import json
import socket

import pytest

from jobs.regions.boards import Boards
from jobs.regions.messenger import Addresses, Messenger
from rules.regions.events import Notification
from tests.support.region_world import wait_for


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_pe_is_sent_all_that_is_on_its_board(family: socket.AddressFamily, host: str) -> None:
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with socket.socket(family, socket.SOCK_DGRAM) as pe:
        pe.bind((host, 0))
        pe.settimeout(10.0)
        boards = Boards()
        boards.put(0, (7,), Notification("triggerDrain", "seqId=1"))
        boards.put(3, (7,), Notification("drained", "seqId=9"))
        messenger = Messenger(boards, Addresses(host, pe.getsockname()[1], "j", "default"))
        messenger.start()
        messenger.tell([7, 8])  # nothing is on the board of 8
        assert json.loads(pe.recv(65536)) == {
            "0": {"type": "triggerDrain", "message": "seqId=1"},
            "3": {"type": "drained", "message": "seqId=9"},
        }
        messenger.close()
    assert (messenger.sent, messenger.failed) == (1, 0)


def test_a_pe_that_has_no_address_costs_only_its_datagram() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as pe:
        pe.bind(("127.0.0.2", 0))
        pe.settimeout(10.0)
        boards = Boards()
        boards.put(0, (0, 1), Notification("drained", "seqId=9"))
        # The address of PE 0 is no name that may exist; that of PE 1 is of the loopback network.
        addresses = Addresses("127.0.0.{low}", pe.getsockname()[1], "j", "default")
        addresses.of(1, 0.0)
        addresses._template = "-{pe}-.invalid"
        messenger = Messenger(boards, addresses, clock=lambda: 0.0)
        messenger.start()
        messenger.tell([0, 1])
        assert json.loads(pe.recv(65536)) == {"0": {"type": "drained", "message": "seqId=9"}}
        wait_for(lambda: messenger.failed == 1)
        messenger.close()


def test_the_address_of_a_pe_is_made_from_its_job_and_number() -> None:
    found = [Addresses("127.0.{high}.{low}", 9, "j", "n").of(pe, 0.0)[1][:2] for pe in (0, 1, 249, 250)]
    assert found == [("127.0.0.1", 9), ("127.0.0.2", 9), ("127.0.0.250", 9), ("127.0.1.1", 9)]
