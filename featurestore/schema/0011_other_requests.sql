-- What pods request beside cpu and memory, as {resource: amount}; NULL: nothing, or not listed since.

ALTER TABLE placements ADD COLUMN other_requests VARCHAR;
